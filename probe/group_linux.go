package probe

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/net/bpf"
)

// A Group is the live capture of a machine: one Ring per shard. Each connection
// belongs to one Ring, the one with index FlowHash % rings.
type Group struct {
	rings []*Ring

	mu         sync.Mutex // serializes swaps
	program    []bpf.Instruction
	match      *matcher
	generation uint32
}

// OpenGroup starts the capture. It needs CAP_NET_RAW; once it is open neither
// reading nor SetFilter need a privilege.
//
// No packet is lost, doubled or split while the rings form a group: they accept
// nothing before the last one has joined. If a ring fails the whole Group is to
// be closed and opened again, because the kernel would spread the connections
// over the rings that are left.
func OpenGroup(c Config) (*Group, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Group{}
	var fds []int
	for i := range c.Shards {
		r, err := openRing(&c)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open ring %d: %w", i, err), g.Close())
		}
		g.rings = append(g.rings, r)
		fds = append(fds, r.fd)
	}
	if len(fds) > 1 {
		if err := joinFanout(fds); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if err := g.swap(&c.Filter, 0); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Rings are the rings in the order of their shards.
func (g *Group) Rings() []*Ring { return g.rings }

// SetFilter changes the filter of all rings while they run. It loses nothing
// and needs no privilege. Segments that passed the new filter have a higher
// Generation than those before. After an error the old filter is in force.
func (g *Group) SetFilter(f Filter) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.swap(&f, g.generation+1)
}

func (g *Group) swap(f *Filter, generation uint32) error {
	m, err := newMatcher(f)
	if err != nil {
		return err
	}
	program, err := f.kernelProgram()
	if err != nil {
		return err
	}
	for i, r := range g.rings {
		if err := r.setFilter(program, m, generation); err != nil {
			return errors.Join(fmt.Errorf("set filter of ring %d: %w", i, err), g.restore(i, generation+1))
		}
	}
	g.program, g.match, g.generation = program, m, generation
	return nil
}

// restore gives the first n rings their old filter back, with a generation of
// its own: a ring's generation never falls.
func (g *Group) restore(n int, generation uint32) error {
	var errs []error
	if g.match != nil {
		g.generation = generation
		for _, r := range g.rings[:n] {
			errs = append(errs, r.setFilter(g.program, g.match, generation))
		}
	}
	return errors.Join(errs...)
}

// Stop stops all rings.
func (g *Group) Stop() error {
	var errs []error
	for _, r := range g.rings {
		errs = append(errs, r.Stop())
	}
	return errors.Join(errs...)
}

// Close ends the capture and waits for the readers to release their batches.
// Their Next returns io.EOF from then on. Closing twice is harmless.
func (g *Group) Close() error {
	var errs []error
	for _, r := range g.rings {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}
