package probe

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrNoLiveCapture is what OpenGroup returns on systems without AF_PACKET.
var ErrNoLiveCapture = errors.New("live capture needs Linux, or a build with the tag libpcap: this one can only read capture files")

// The geometry of a ring. A longer timeout makes fewer wake-ups, and each of them a
// longer burst of work, which the server's threads wait for where they share its
// processor: bench/speed, TestTick.
const (
	DefaultBlocks       = 128
	DefaultBlockBytes   = 512 << 10
	DefaultBlockTimeout = 20 * time.Millisecond
	DefaultIdleWake     = 250 * time.Millisecond
	MinBlockBytes       = 128 << 10

	// minRingTime is how long a stopped reader loses nothing: each timeout
	// retires a block, however empty.
	minRingTime   = 2 * time.Second
	maxBlockBytes = 16 << 20
	maxRingBytes  = 2 << 30
	maxShards     = 64
)

// retireSlack is how much later than its timeout a block may be retired on a
// busy machine, or where timers tick at 100 Hz.
const retireSlack = 50 * time.Millisecond

// A Config describes a Group. The zero value of all but Filter means the
// default.
type Config struct {
	Shards int // rings, 1 by default
	Filter Filter

	// A ring has Blocks of BlockBytes each. It must hold 2 s of blocks, and a
	// block must hold a super-segment: twice the device's gso_max_size.
	// Longer packets arrive cut, and say so in Segment.Snipped.
	Blocks     int
	BlockBytes int
	// BlockTimeout closes a block that is not full. It is the latency of the
	// capture, and a batch is a block. Whole milliseconds.
	BlockTimeout time.Duration
	// IdleWake is the longest wait for a Batch: without traffic an empty one
	// is handed out, so that the reader sees time pass.
	IdleWake time.Duration
}

// Check says which key is out of bounds. It opens nothing.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults is c with its zero fields filled in, or an error that names the
// first key out of bounds as the configuration file calls it.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.Shards, 1)
	setDefault(&c.Blocks, DefaultBlocks)
	setDefault(&c.BlockBytes, DefaultBlockBytes)
	setDefault(&c.BlockTimeout, DefaultBlockTimeout)
	setDefault(&c.IdleWake, DefaultIdleWake)
	page := os.Getpagesize()
	switch {
	case c.Shards < 1 || c.Shards > maxShards:
		return c, fmt.Errorf("shards %d: allowed are 1 to %d", c.Shards, maxShards)
	case c.BlockTimeout < time.Millisecond || c.BlockTimeout > time.Second || c.BlockTimeout%time.Millisecond != 0:
		return c, fmt.Errorf("tick %v: allowed are whole milliseconds from 1ms to 1s", c.BlockTimeout)
	case c.BlockBytes < MinBlockBytes || c.BlockBytes > maxBlockBytes || c.BlockBytes%page != 0:
		return c, fmt.Errorf("ring block of %d bytes (ring_mib / ring_blocks): allowed are multiples of %d from %d to %d",
			c.BlockBytes, page, MinBlockBytes, maxBlockBytes)
	case c.Blocks < 1 || time.Duration(c.Blocks)*c.BlockTimeout < minRingTime:
		return c, fmt.Errorf("ring_blocks %d with tick %v holds %v: at least %v needed, so ring_blocks must be %d or more",
			c.Blocks, c.BlockTimeout, time.Duration(c.Blocks)*c.BlockTimeout, minRingTime, int(minRingTime/c.BlockTimeout))
	case c.Blocks > maxRingBytes/c.BlockBytes:
		return c, fmt.Errorf("ring_mib: %d blocks of %d bytes, allowed are up to %d MiB a ring", c.Blocks, c.BlockBytes, maxRingBytes>>20)
	case c.IdleWake < c.BlockTimeout:
		return c, fmt.Errorf("idle wake %v: must not be shorter than tick %v", c.IdleWake, c.BlockTimeout)
	}
	return c, c.Filter.Validate()
}

func setDefault[T int | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}
