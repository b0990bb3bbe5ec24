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
	Indexes []int    // sorted; never nil
	Missing []string // names of devices that do not exist
}

// AllowInterfaces are devices as a Filter takes them: no more than it holds, else nil,
// which is all there are.
func AllowInterfaces(indexes []int) []int {
	if len(indexes) > MaxInterfaces {
		return nil
	}
	return indexes
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
	return resolve(names, devices, (*net.Interface).Addrs)
}

// resolve finds names among devices, whose addresses addrs tells.
func resolve(names []string, devices []net.Interface, addrs func(*net.Interface) ([]net.Addr, error)) (found Interfaces, all []string, err error) {
	found.Indexes = []int{}
	for _, d := range devices {
		all = append(all, d.Name)
		wanted := slices.Contains(names, d.Name)
		if !wanted && slices.Contains(names, AutoInterfaces) {
			if wanted, err = servesAddress(&d, addrs); err != nil {
				return found, nil, fmt.Errorf("list addresses of interface %s: %w", d.Name, err)
			}
		}
		if wanted {
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

// servesAddress reports whether auto means d. An error says nothing of d: Linux has no
// addresses for a device that is gone.
func servesAddress(d *net.Interface, addrs func(*net.Interface) ([]net.Addr, error)) (bool, error) {
	if d.Flags&net.FlagUp == 0 {
		return false, nil
	}
	if d.Flags&net.FlagLoopback != 0 {
		return true, nil
	}
	list, err := addrs(d)
	return slices.ContainsFunc(list, func(a net.Addr) bool {
		ip, ok := a.(*net.IPNet)
		return ok && !ip.IP.IsLinkLocalUnicast()
	}), err
}
