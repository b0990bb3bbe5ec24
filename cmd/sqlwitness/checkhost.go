package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"sqlwitness/probe"
)

// What live capture needs of the kernel: PACKET_FANOUT_FLAG_UNIQUEID, packet(7).
const needKernel = "4.12"

func (d *doctor) checkHost() {
	release, fine := kernelRelease()
	switch {
	case release == "":
		d.say(gradeDown, "kernel", "live capture needs Linux", "use sqlwitness read with a capture file")
	case !fine:
		d.say(gradeDown, "kernel", "Linux "+release+", at least "+needKernel+" is needed", "a newer kernel")
	default:
		d.ok("kernel", "Linux %s", release)
	}
}

// checkCapture opens rings as a run would, with a filter that nothing passes.
func (d *doctor) checkCapture() {
	c := d.config
	indexes, err := probe.FindInterfaces(c.Capture.Interfaces)
	if err != nil {
		d.say(gradeDown, "interfaces", err.Error(), "name devices that are there in capture.interfaces, or say auto")
		return
	}
	switch {
	case len(indexes) == 0:
		d.say(gradeDown, "interfaces", "no device carries an address", "ip addr shows the devices; name some in capture.interfaces")
	case len(indexes) > probe.MaxInterfaces:
		d.say(gradeWarn, "interfaces", fmt.Sprintf("%d devices carry an address, a filter holds %d: all devices are captured, also those without one", len(indexes), probe.MaxInterfaces),
			"name the devices in capture.interfaces")
	default:
		d.ok("interfaces", "%s", strings.Join(deviceNames(indexes), ", "))
	}
	rings := int64(c.Capture.RingMiB*c.Capture.Shards) << 20
	whole := rings + int64(max(c.heapMiB(), minHeapMiB)*c.Capture.Shards+c.queuesMiB())<<20
	free := availableMemory()
	if free > 0 && rings > free {
		d.say(gradeDown, "memory", fmt.Sprintf("the rings need %d MiB, %d MiB are free", rings>>20, free>>20), "lower capture.ring_mib or capture.shards")
		return
	}
	quiet := *c // the engine may raise the ring
	filter, err := quiet.filter()
	filter.Interfaces = []int{}
	var engine engine
	if err == nil {
		engine, err = d.open(&quiet, filter, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		d.say(gradeDown, "capture", err.Error(), "root, or setcap cap_net_raw+ep "+self())
		return
	}
	engine.Stop()
	engine.Close()
	d.ok("capture", "%s of %d MiB, %v each, can be opened", counted(c.Capture.Shards, "ring"), quiet.Capture.RingMiB,
		time.Duration(c.Capture.RingBlocks)*c.Capture.Tick)
	if free > 0 && whole > free {
		d.say(gradeWarn, "memory", fmt.Sprintf("the agent may use %d MiB, %d MiB are free", whole>>20, free>>20), "lower limits.memory_mib, limits.queue_mib or capture.ring_mib")
	} else if free > 0 {
		d.ok("memory", "the agent may use %d MiB, %d MiB are free", whole>>20, free>>20)
	}
}

// self is the path of this program.
func self() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return "sqlwitness"
}

func deviceNames(indexes []int) (names []string) {
	for _, i := range indexes {
		if dev, err := net.InterfaceByIndex(i); err == nil {
			names = append(names, dev.Name)
		}
	}
	return names
}
