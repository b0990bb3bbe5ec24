//go:build !linux

package probe

import (
	"context"
	"io"
)

// A Group is the live capture of a machine; it exists on Linux only.
type Group struct{}

// OpenGroup returns ErrNoLiveCapture.
func OpenGroup(Config) (*Group, error) { return nil, ErrNoLiveCapture }

// Rings are none.
func (*Group) Rings() []*Ring { return nil }

// SetFilter returns ErrNoLiveCapture.
func (*Group) SetFilter(Filter) error { return ErrNoLiveCapture }

// Stop does nothing.
func (*Group) Stop() error { return nil }

// Close does nothing.
func (*Group) Close() error { return nil }

// A Ring is one shard's share of the live traffic; it exists on Linux only.
type Ring struct{}

// Next returns io.EOF.
func (*Ring) Next() (*Batch, error) { return nil, io.EOF }

// Release does nothing.
func (*Ring) Release() {}

// Stop does nothing.
func (*Ring) Stop() error { return nil }

// Stats are zero.
func (*Ring) Stats() Stats { return Stats{} }

// WatchInterfaces returns ErrNoLiveCapture.
func WatchInterfaces(context.Context, []string, func(Interfaces)) error { return ErrNoLiveCapture }

// MaxSegment fails: there is no live capture here.
func MaxSegment([]int) (int, error) { return 0, ErrNoLiveCapture }
