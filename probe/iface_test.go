package probe

import (
	"errors"
	"net"
	"slices"
	"testing"
)

// TestResolveInterfaces: auto means devices with addresses; a list that cannot be read
// is an error and no device less; no device is an empty list, not all of them.
func TestResolveInterfaces(t *testing.T) {
	devices := []net.Interface{{Index: 9, Name: "eth1", Flags: net.FlagUp}, {Index: 1, Name: "lo", Flags: net.FlagUp | net.FlagLoopback},
		{Index: 3, Name: "eth0", Flags: net.FlagUp}, {Index: 4, Name: "down"}, {Index: 5, Name: "port", Flags: net.FlagUp}}
	of := map[string]string{"eth0": "192.0.2.1", "eth1": "2001:db8::1", "down": "192.0.2.2", "port": "fe80::1"}
	addrs := func(d *net.Interface) ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP(of[d.Name])}}, nil
	}
	got, all, err := resolve([]string{AutoInterfaces, "gone"}, devices, addrs)
	if err != nil || !slices.Equal(got.Indexes, []int{1, 3, 9}) || !slices.Equal(got.Missing, []string{"gone"}) || len(all) != 5 {
		t.Errorf("%+v, %v; %v", got, all, err)
	}
	broken := errors.New("no buffer")
	_, _, err = resolve([]string{AutoInterfaces}, devices, func(*net.Interface) ([]net.Addr, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if got, _, err := resolve([]string{AutoInterfaces}, devices[3:], addrs); err != nil || got.Indexes == nil || len(got.Indexes) != 0 {
		t.Errorf("%+v; %v", got, err)
	}
}

// TestAllowInterfaces: what a filter takes never is more than it holds.
func TestAllowInterfaces(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, MaxInterfaces: MaxInterfaces, MaxInterfaces + 1: -1} {
		all := make([]int, n)
		for i := range all {
			all[i] = i + 1
		}
		got := AllowInterfaces(all)
		if (got == nil) != (want < 0) || got != nil && len(got) != want {
			t.Errorf("of %d there are %d", n, len(got))
		}
		f := Filter{Ports: []uint16{3306}, Interfaces: got}
		if _, err := f.kernelProgram(); err != nil {
			t.Errorf("%d devices: %v", n, err)
		}
	}
}
