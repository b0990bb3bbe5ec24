package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFindInterfaces(t *testing.T) {
	live(t)
	w := newWire(t)
	ip(t, "addr", "add", "10.77.0.1/24", "dev", w.from)
	got, err := FindInterfaces([]string{AutoInterfaces})
	if want := []int{1, w.fromIndex}; err != nil || !slices.Equal(got, want) {
		t.Errorf("auto is %v, want %v; %v", got, want, err)
	}
	got, err = FindInterfaces([]string{w.to, w.to})
	if err != nil || !slices.Equal(got, []int{w.toIndex}) {
		t.Errorf("%s is %v, want %d; %v", w.to, got, w.toIndex, err)
	}
	ip(t, "link", "set", w.from, "down")
	if got, err := FindInterfaces([]string{AutoInterfaces}); err != nil || !slices.Equal(got, []int{1}) {
		t.Errorf("auto with the device down is %v; %v", got, err)
	}
	_, err = FindInterfaces([]string{"eth77", "lo"})
	if err == nil || !strings.Contains(err.Error(), "interface eth77: no such device, there are ") || !strings.Contains(err.Error(), w.to) {
		t.Errorf("%v", err)
	}
}

// Packets on other devices: only what the allow-list names arrives, with tags or
// without.
func TestInterfaceAllowList(t *testing.T) {
	live(t)
	w := newWire(t)
	for _, tt := range []struct {
		name    string
		indexes []int
		want    int
	}{
		{"receiver", []int{w.toIndex}, 3}, {"sender", []int{w.fromIndex}, 3}, {"both", []int{w.toIndex, w.fromIndex}, 6},
		{"all", nil, 6}, {"none", []int{}, 0}, {"another", []int{1}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: tt.indexes}})
			done := collect(g.Rings()[0])
			w.send(t, watchedPacket(1, 10))
			w.send(t, watchedPacket(2, 10), 0x8100, 77)
			w.send(t, watchedPacket(3, 10), 0x88a8, 77, 0x8100, 0x4578)
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			if c := <-done; len(c.segs) != tt.want {
				t.Errorf("%d segments, want %d: %+v", len(c.segs), tt.want, c.segs)
			}
		})
	}
}

// A device that goes and comes back is captured again without a new socket.
func TestRecreatedInterface(t *testing.T) {
	live(t)
	w := newWire(t)
	name := "vnamed"
	ip(t, "link", "add", name, "type", "veth", "peer", "name", "vpeer")
	ctx, cancel := context.WithCancel(context.Background())
	changes := make(chan Interfaces, 16)
	watch := make(chan error, 1)
	go func() {
		watch <- WatchInterfaces(ctx, []string{name, w.to}, func(i Interfaces) { changes <- i })
	}()
	defer func() {
		cancel()
		if err := <-watch; err != nil {
			t.Error(err)
		}
	}()
	expect := func(missing ...string) Interfaces {
		t.Helper()
		for {
			select {
			case c := <-changes:
				if slices.Equal(c.Missing, missing) {
					return c
				}
			case <-time.After(time.Minute):
				t.Fatalf("no change to missing %v", missing)
			}
		}
	}
	before := expect()
	if len(before.Indexes) != 2 || !slices.Contains(before.Indexes, w.toIndex) {
		t.Fatalf("%+v", before)
	}
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: before.Indexes}})
	ip(t, "link", "del", name)
	expect(name)

	// The wire's receiving end comes back as a new device under its old name.
	old := w.toIndex
	ip(t, "link", "del", w.from)
	expect(name, w.to)
	ip(t, "link", "add", w.from, "type", "veth", "peer", "name", w.to)
	back := expect(name)
	again := &wire{from: w.from, to: w.to, toIndex: ifindex(t, w.to), fd: w.fd}
	if again.toIndex == old || !slices.Equal(back.Indexes, []int{again.toIndex}) {
		t.Fatalf("%+v, the device has index %d and had %d", back, again.toIndex, old)
	}
	again = rewire(t, again)
	done := collect(g.Rings()[0])
	again.send(t, watchedPacket(1, 10))
	if err := g.SetFilter(Filter{Ports: []uint16{3306}, Interfaces: back.Indexes}); err != nil {
		t.Fatal(err)
	}
	again.send(t, watchedPacket(2, 10))
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if c := <-done; len(c.segs) != 1 || c.segs[0].Seq != 2 || c.segs[0].Generation != 1 {
		t.Errorf("%+v", c.segs)
	}
}

func TestWatchInterfacesEnds(t *testing.T) {
	live(t)
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	err := WatchInterfaces(ctx, []string{"lo"}, func(i Interfaces) {
		if calls++; calls == 1 {
			time.AfterFunc(20*time.Millisecond, cancel)
		}
		if fmt.Sprint(i) != "{[1] []}" {
			t.Errorf("%+v", i)
		}
	})
	if err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
