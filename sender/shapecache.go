package sender

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// A shapeCache keeps the analyses of the shapes seen last, for all lanes. It is
// bounded in entries and bytes. Looking up takes no lock; a miss does.
type shapeCache struct {
	seed maphash.Seed
	sets []shapeSet // as many as a power of two

	mu    sync.Mutex
	bytes int64
	limit int64
	hand  int // the set that gives up entries next, when there are too many bytes

	seen  []atomic.Uint64 // shapes that were seen, by their low bits; see first
	stats shapeCounters
}

// A shapeSet holds the shapes whose low bits are equal: one cache line of keys and
// pointers. A key says where to look; the analysis itself says whose it is.
type shapeSet struct {
	keys [shapeWays]atomic.Uint64
	at   [shapeWays]atomic.Pointer[analysis]
}

const (
	shapeWays = 4
	// shapeSets × shapeWays is the most shapes that are kept.
	shapeSets = 4096
	// shapeBytes bounds what their analyses hold.
	shapeBytes = 16 << 20
	// seenShapes is how many shapes are remembered as seen, 8 bytes each.
	seenShapes = 1 << 17
)

// shapeCounters count what the cache and its worker did.
type shapeCounters struct {
	misses, evicted, studied, postponed atomic.Uint64
}

func newShapeCache(sets int, bytes int64) *shapeCache {
	return &shapeCache{seed: maphash.MakeSeed(), sets: make([]shapeSet, sets), limit: bytes, seen: make([]atomic.Uint64, seenShapes)}
}

func (c *shapeCache) set(shape uint64) *shapeSet { return &c.sets[shape&uint64(len(c.sets)-1)] }

// find is the analysis of a shape, or nil.
func (c *shapeCache) find(shape uint64) *analysis {
	set := c.set(shape)
	for i := range set.keys {
		if set.keys[i].Load() != shape {
			continue
		}
		if a := set.at[i].Load(); a != nil && a.shape == shape {
			a.use()
			return a
		}
	}
	return nil
}

// put keeps a, in the place of what was known of its shape before. It gives up
// what was not used since it looked last; what comes and is not used goes first.
func (c *shapeCache) put(a *analysis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := c.set(a.shape)
	way := set.victim(a.shape)
	if old := set.at[way].Load(); old != nil {
		c.bytes -= int64(old.bytes())
		if old.shape == a.shape {
			a.used.Store(old.used.Load())
		} else {
			c.stats.evicted.Add(1)
		}
	}
	set.keys[way].Store(a.shape)
	set.at[way].Store(a)
	c.bytes += int64(a.bytes())
	for c.bytes > c.limit {
		c.hand = (c.hand + 1) & (len(c.sets) - 1)
		if s := &c.sets[c.hand]; s != set || len(c.sets) == 1 {
			c.empty(s)
		}
	}
}

// empty gives up the analyses of a set.
func (c *shapeCache) empty(s *shapeSet) {
	for i := range s.at {
		if old := s.at[i].Swap(nil); old != nil {
			s.keys[i].Store(0)
			c.bytes -= int64(old.bytes())
			c.stats.evicted.Add(1)
		}
	}
}

// victim is the way that a shape may take: its own, an empty one, or the first
// that was not used since it was looked at last.
func (s *shapeSet) victim(shape uint64) int {
	for i := range s.at {
		if a := s.at[i].Load(); a == nil || a.shape == shape {
			return s.own(shape, i)
		}
	}
	start := int(shape >> 62)
	for i := range 2 * shapeWays {
		way := (start + i) % shapeWays
		if !s.at[way].Load().used.Swap(false) {
			return way
		}
	}
	return start
}

// own is the way that holds shape, or otherwise.
func (s *shapeSet) own(shape uint64, otherwise int) int {
	for i := range s.at {
		if a := s.at[i].Load(); a != nil && a.shape == shape {
			return i
		}
	}
	return otherwise
}

// first tells whether shape was not seen before, and remembers it. A shape that
// was pushed out by others of its place is new again.
func (c *shapeCache) first(shape uint64) bool {
	const ways = 8
	base := shape & uint64(len(c.seen)-1) &^ (ways - 1)
	for i := range uint64(ways) {
		switch old := c.seen[base+i].Load(); old {
		case shape:
			return false
		case 0:
			if c.seen[base+i].CompareAndSwap(0, shape) {
				return true
			}
			if c.seen[base+i].Load() == shape {
				return false
			}
		}
	}
	return c.seen[base+shape>>61].Swap(shape) != shape
}
