package probe

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// AutoInterfaces is the name that stands for the devices a server may be
// reached through: those that are up and carry an address that is not
// link-local, and the loopback device.
const AutoInterfaces = "auto"

// Interfaces are the devices that a list of names stands for.
type Interfaces struct {
	Indexes []int    // sorted, for Filter.Interfaces
	Missing []string // names of devices that do not exist
}

// FindInterfaces resolves names, each of a device or "auto". A name without a
// device is an error that lists the devices there are.
func FindInterfaces(names []string) ([]int, error) {
	found, all, err := resolveInterfaces(names)
	if err != nil {
		return nil, err
	}
	if len(found.Missing) > 0 {
		return nil, fmt.Errorf("interface %s: no such device, there are %s",
			strings.Join(found.Missing, ", "), strings.Join(all, ", "))
	}
	return found.Indexes, nil
}

// resolveInterfaces also gives the names of all devices.
func resolveInterfaces(names []string) (found Interfaces, all []string, err error) {
	devices, err := net.Interfaces()
	if err != nil {
		return found, nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, d := range devices {
		all = append(all, d.Name)
		if slices.Contains(names, d.Name) || slices.Contains(names, AutoInterfaces) && servesAddress(&d) {
			found.Indexes = append(found.Indexes, d.Index)
		}
	}
	for _, name := range names {
		if name != AutoInterfaces && !slices.Contains(all, name) {
			found.Missing = append(found.Missing, name)
		}
	}
	slices.Sort(found.Indexes)
	return found, all, nil
}

// servesAddress reports whether auto means d.
func servesAddress(d *net.Interface) bool {
	if d.Flags&net.FlagUp == 0 {
		return false
	}
	if d.Flags&net.FlagLoopback != 0 {
		return true
	}
	addrs, err := d.Addrs()
	if err != nil {
		return false // gone between the list and the question
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		ip, ok := a.(*net.IPNet)
		return ok && !ip.IP.IsLinkLocalUnicast()
	})
}
