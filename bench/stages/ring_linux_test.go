package stages

import (
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"sqlwitness/bench/generator"
	"sqlwitness/probe"
)

// The bare ring sees the packets that package probe's ring sees, so that their
// prices can be compared.
func TestBareRingSeesTheSame(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("packet sockets need root")
	}
	ctx := t.Context()
	program, err := generator.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	srv, err := generator.Start(ctx, generator.ServerConfig{Addr: "127.0.0.1:0", User: "u", Password: "p", Rows: 1, RowBytes: 100}, program)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	_, text, _ := net.SplitHostPort(srv.Addr)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := OpenBareRing("lo", uint16(port))
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	stop, done := make(chan struct{}), make(chan BareCounts)
	go func() {
		c, err := bare.Run(stop)
		if err != nil {
			t.Error(err)
		}
		done <- c
	}()
	indexes, err := probe.FindInterfaces([]string{"lo"})
	if err != nil {
		t.Fatal(err)
	}
	group, err := probe.OpenGroup(probe.Config{Filter: probe.Filter{Ports: []uint16{uint16(port)}, Interfaces: indexes}})
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	segments := make(chan int)
	go func() {
		n, err := Run(group.Rings()[0], Decode, "", false)
		if err != nil {
			t.Error(err)
		}
		segments <- n
	}()
	res, err := generator.Run(ctx, generator.LoadConfig{Addr: srv.Addr, User: "u", Password: "p", Conns: 3, Depth: 1, Rate: 1000, Duration: time.Second}, nil, program)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // many ticks: the kernel has retired all blocks
	close(stop)
	group.Stop()
	got, want := <-done, <-segments
	if int(got.Packets) != want || want < 2*int(res.Sent) || got.Bytes < 100*uint64(res.Sent) || got.Blocks == 0 {
		t.Errorf("%d statements: %+v, and %d segments", res.Sent, got, want)
	}
}
