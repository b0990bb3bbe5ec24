//go:build libpcap

package probe

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/gopacket/pcap"
)

// The defaults of a DeviceConfig.
const (
	DefaultDeviceBufferBytes = 64 << 20

	// deviceSnapLen is libpcap's own largest (MAXIMUM_SNAPLEN of pcap-int.h).
	deviceSnapLen = 262144
	// kernelStatsEvery is how often the kernel is asked what it dropped.
	kernelStatsEvery = 100 * time.Millisecond
)

// AnyDevice stands for all devices at once, where libpcap has it (Linux). A
// packet that crosses several of them is captured on each.
const AnyDevice = "any"

// A DeviceConfig describes a live capture through libpcap. The zero value of all
// but Name and Filter means the default.
type DeviceConfig struct {
	Name        string // one device, or AnyDevice
	Filter      Filter // Interfaces are ignored
	BufferBytes int    // of the kernel; 64 MiB
	// BatchTimeout is the latency of the capture. Whole milliseconds; 20 ms.
	BatchTimeout time.Duration
	// IdleWake is the longest wait for a Batch; 250 ms.
	IdleWake time.Duration
}

// A Device is the second live engine, for systems without AF_PACKET: one device,
// read through libpcap and filtered in Go, one copy and one call into C for each
// packet. One goroutine calls Next and Release; the rest may be called from any.
// A Splitter makes it the source of several shards.
type Device struct {
	cfg    DeviceConfig
	handle *pcap.Handle
	intake *intake
	frame  frame // of what was read last
	ahead  bool  // frame is for the next batch
	now    int64 // last NowNs handed out
	clock  clock
	err    error // how the capture ended, once it has

	using    sync.Mutex // held during Next: Close waits for it
	closed   atomic.Bool
	stopNs   atomic.Int64 // 0 = runs
	received atomic.Uint64
	dropped  atomic.Uint64
	last     pcap.Stats // as read last; its counters have 32 bits
	asked    time.Time
}

// OpenDevice starts the capture.
func OpenDevice(c DeviceConfig) (*Device, error) {
	setDefault(&c.BufferBytes, DefaultDeviceBufferBytes)
	setDefault(&c.BatchTimeout, DefaultBlockTimeout)
	setDefault(&c.IdleWake, DefaultIdleWake)
	if c.BatchTimeout < time.Millisecond || c.BatchTimeout > time.Second || c.IdleWake < c.BatchTimeout {
		return nil, fmt.Errorf("tick %v: allowed are 1ms to 1s, and no more than the idle wake %v", c.BatchTimeout, c.IdleWake)
	}
	in, err := newIntake(&c.Filter)
	if err != nil {
		return nil, err
	}
	handle, err := activate(&c)
	if err != nil {
		return nil, fmt.Errorf("open device %s: %w", c.Name, err)
	}
	in.batch.Behind = true // it cannot tell
	d := &Device{cfg: c, handle: handle, intake: in, clock: newClock(), now: time.Now().UnixNano()}
	d.frame.link = liveLinkType(uint32(handle.LinkType()))
	if err := d.frame.link.check(); err != nil {
		handle.Close()
		return nil, fmt.Errorf("open device %s: %w", c.Name, err)
	}
	return d, nil
}

func activate(c *DeviceConfig) (*pcap.Handle, error) {
	inactive, err := pcap.NewInactiveHandle(c.Name)
	if err != nil {
		return nil, err
	}
	defer inactive.CleanUp()
	err = errors.Join(inactive.SetSnapLen(deviceSnapLen), inactive.SetTimeout(c.BatchTimeout), inactive.SetBufferSize(c.BufferBytes))
	if err != nil {
		return nil, err
	}
	handle, err := inactive.Activate()
	if err != nil {
		return nil, fmt.Errorf("%w: live capture needs root, or the right to capture (CAP_NET_RAW; /dev/bpf*)", err)
	}
	return handle, nil
}

// liveLinkType is the link type of files that means what a handle's does: the
// numbers of the latter differ on some systems.
func liveLinkType(dlt uint32) linkType {
	if runtime.GOOS == "openbsd" && dlt == uint32(linkRawBSD) {
		return linkLoop
	}
	return linkType(dlt)
}

// Next waits for traffic and hands it out as a Batch, or an empty one after
// IdleWake. It releases the Batch before it. After Stop it returns io.EOF once
// all that was captured has been handed out. It does not allocate, but to put
// fragmented packets together.
func (d *Device) Next() (*Batch, error) {
	d.using.Lock()
	defer d.using.Unlock()
	d.Release()
	started := time.Now()
	var end int64 // of the batch
	for frames := 0; !d.closed.Load(); frames++ {
		over := d.drained() // asked before the read, or what comes in between is lost
		err := d.read()
		for err == pcap.NextErrorTimeoutExpired && !d.closed.Load() {
			if frames == 0 && over {
				return nil, d.finish(io.EOF)
			}
			if frames > 0 || time.Since(started) > d.cfg.IdleWake {
				return d.handOut(), nil
			}
			over = d.drained()
			err = d.read()
		}
		if err == nil && d.late() {
			err = io.EOF
		}
		switch {
		case err == pcap.NextErrorTimeoutExpired: // closed
		case err != nil && frames > 0:
			d.err = err
			return d.handOut(), nil
		case err != nil:
			return nil, d.finish(err)
		case frames == 0:
			end = d.frame.timeNs + int64(d.cfg.BatchTimeout)
			fallthrough
		case d.frame.timeNs <= end && frames < maxBatchFrames && d.intake.fits(&d.frame):
			d.intake.take(&d.frame)
			if d.intake.full() {
				return d.handOut(), nil
			}
		default:
			d.ahead = true
			return d.handOut(), nil
		}
	}
	return nil, d.finish(io.EOF)
}

// read makes d.frame the next frame. Its data is valid until the next read.
func (d *Device) read() error {
	if d.ahead || d.err != nil {
		d.ahead = false
		return d.err
	}
	data, info, err := d.handle.ZeroCopyReadPacketData()
	if err == nil {
		d.frame.timeNs, d.frame.data, d.frame.wireLen = info.Timestamp.UnixNano(), data, info.Length
	}
	return err
}

// late reports whether the frame came after Stop.
func (d *Device) late() bool {
	stop := d.stopNs.Load()
	return stop != 0 && d.frame.timeNs > stop
}

// drained reports that what was under way at Stop has had the time to arrive: if
// nothing can be read, nothing is left.
func (d *Device) drained() bool {
	stop := d.stopNs.Load()
	return stop != 0 && time.Now().UnixNano()-stop > int64(2*d.cfg.BatchTimeout+retireSlack)
}

// handOut ends a batch. Without traffic its clock goes on, as far as frames that
// the kernel still holds allow.
func (d *Device) handOut() *Batch {
	now := time.Now()
	b := &d.intake.batch
	last := now.Add(-d.cfg.BatchTimeout - retireSlack).UnixNano()
	if n := len(b.Segments); n > 0 {
		last = b.Segments[n-1].TimeNs
	} else {
		b.NowNs = max(b.NowNs, last)
	}
	b.SetNs = 0
	if leaps(b.NowNs-d.now) || leaps(last-d.now) {
		d.cross(now, last)
	}
	d.now = b.NowNs
	d.intake.settle()
	if now.Sub(d.asked) > kernelStatsEvery {
		d.askKernel(now)
	}
	return b
}

// cross looks for where the machine's clock was set in a batch that makes the capture
// clock leap, or in the one before. The last packet is of the new clock.
func (d *Device) cross(now time.Time, last int64) {
	b := &d.intake.batch
	b.SetNs = d.clock.setNs(now)
	retime(b.Segments, d.now, b.SetNs)
	if b.SetNs < 0 {
		b.NowNs = last
	}
}

func (d *Device) finish(err error) error {
	d.intake.finish()
	d.err = err
	if !d.closed.Load() {
		d.askKernel(time.Now())
	}
	if err == io.EOF {
		return err
	}
	return fmt.Errorf("read device %s: %w", d.cfg.Name, err)
}

// askKernel adds up the kernel's counters.
func (d *Device) askKernel(now time.Time) {
	st, err := d.handle.Stats()
	if err != nil {
		return
	}
	d.asked = now
	d.received.Add(uint64(uint32(st.PacketsReceived) - uint32(d.last.PacketsReceived)))
	d.dropped.Add(uint64(uint32(st.PacketsDropped) - uint32(d.last.PacketsDropped)))
	d.last = *st
}

// Release takes the last Batch back. Its segments are invalid from now on.
func (d *Device) Release() { d.intake.Release() }

// Stop ends the capture: Next hands out what was captured until now, then
// io.EOF.
func (d *Device) Stop() error {
	d.stopNs.CompareAndSwap(0, time.Now().UnixNano())
	return nil
}

// Stats is what was counted in all batches handed out so far. KernelPackets is
// what libpcap says it received: on some systems drops are part of it, and on
// loopback devices both copies of a packet may be.
func (d *Device) Stats() Stats {
	s := Stats{KernelPackets: d.received.Load(), KernelDrops: d.dropped.Load()}
	d.intake.fill(&s)
	return s
}

// Close ends the capture at once. Next returns io.EOF from then on. Closing
// twice is harmless.
func (d *Device) Close() error {
	d.closed.Store(true)
	d.using.Lock()
	defer d.using.Unlock()
	d.handle.Close()
	return nil
}
