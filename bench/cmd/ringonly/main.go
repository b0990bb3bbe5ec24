//go:build linux

// Ringonly is the floor of every capture: it opens the same ring with the same
// filter as sqlwitness, looks at the headers, and forgets all. It ends on SIGINT
// with its counts.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"

	"sqlwitness/probe"
)

func main() {
	device := flag.String("interface", "lo", "device to capture on")
	port := flag.Uint("port", 3306, "port of the server")
	tick := flag.Duration("tick", probe.DefaultBlockTimeout, "a block of the ring is handed on when it is this old")
	flag.Parse()
	if err := run(*device, uint16(*port), probe.Config{BlockTimeout: *tick}); err != nil {
		fmt.Fprintln(os.Stderr, "ringonly:", err)
		os.Exit(1)
	}
}

func run(device string, port uint16, cfg probe.Config) error {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	cfg.Filter = probe.Filter{Ports: []uint16{port}, Interfaces: []int{dev.Index}}
	group, err := probe.OpenGroup(cfg)
	if err != nil {
		return err
	}
	defer group.Close()
	ring := group.Rings()[0]
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	go func() {
		<-interrupt
		ring.Stop()
	}()
	fmt.Fprintln(os.Stderr, "capturing")
	for {
		batch, err := ring.Next()
		if err != nil || batch == nil {
			s := ring.Stats()
			fmt.Fprintf(os.Stderr, "%d packets captured, %d dropped by the kernel\n", s.Packets, s.KernelDrops)
			return nil
		}
		ring.Release()
	}
}
