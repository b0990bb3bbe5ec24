//go:build libpcap

package main

import (
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"sqlwitness/probe"
	"sqlwitness/worker"
)

// The values of --engine, a flag of builds with the tag libpcap only.
const (
	engineAFPacket = "afpacket"
	engineLibpcap  = "libpcap"
)

// defaultEngine is libpcap where there is nothing else.
func defaultEngine() string {
	if runtime.GOOS != "linux" {
		return engineLibpcap
	}
	return engineAFPacket
}

// engineFlag lists the flag that chooseEngine takes.
func engineFlag(fs *flag.FlagSet) {
	fs.String("engine", defaultEngine(), "what captures: "+engineAFPacket+" or "+engineLibpcap)
}

// chooseEngine takes --engine out of the arguments.
func chooseEngine(args []string) (openEngine, []string, error) {
	name, rest := defaultEngine(), slices.Clone(args)
	for i := 0; i < len(rest) && rest[i] != "--"; {
		flag, value, joined := strings.Cut(rest[i], "=")
		if flag != "--engine" && flag != "-engine" {
			i++
			continue
		}
		n := 1
		if !joined && i+1 < len(rest) {
			value, n = rest[i+1], 2
		}
		name, rest = value, slices.Delete(rest, i, i+n)
	}
	switch name {
	case engineAFPacket:
		return openRings, rest, nil
	case engineLibpcap:
		return openDevice, rest, nil
	}
	return nil, nil, usageError{fmt.Errorf("engine: %q is not allowed; allowed are %s, %s", name, engineAFPacket, engineLibpcap)}
}

// A device is the engine of other systems: one device, read by one goroutine.
type device struct {
	*probe.Device
	parts []worker.Source
}

func openDevice(c *config, filter probe.Filter, _ *slog.Logger) (engine, error) {
	name, err := deviceName(c.Capture.Interfaces)
	if err != nil {
		return nil, err
	}
	d, err := probe.OpenDevice(probe.DeviceConfig{
		Name: name, Filter: filter, BufferBytes: c.Capture.RingMiB << 20, BatchTimeout: c.Capture.Tick,
	})
	if err != nil {
		return nil, err
	}
	if c.Capture.Shards == 1 {
		return device{d, []worker.Source{d}}, nil
	}
	splitter := probe.NewSplitter(d, c.Capture.Shards)
	var parts []worker.Source
	for _, part := range splitter.Parts() {
		parts = append(parts, part)
	}
	go splitter.Run() // its error reaches every part
	return device{d, parts}, nil
}

func (d device) sources() []worker.Source { return d.parts }

func (d device) stats() []probe.Stats { return []probe.Stats{d.Stats()} }

// SetFilter has nothing to change: the device stays, and devices are all that
// changes during a run.
func (d device) SetFilter(probe.Filter) error { return nil }

// deviceName is the one device that the configured interfaces stand for.
func deviceName(interfaces []string) (string, error) {
	switch {
	case len(interfaces) == 1 && interfaces[0] != probe.AutoInterfaces:
		return interfaces[0], nil
	case len(interfaces) == 1 && runtime.GOOS == "linux":
		return probe.AnyDevice, nil
	}
	return "", usageError{fmt.Errorf("interface %s: the engine %s captures on one device, name it with --interface",
		strings.Join(interfaces, ","), engineLibpcap)}
}
