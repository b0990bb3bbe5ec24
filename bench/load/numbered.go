package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Marker stands in front of the number in the text of each numbered statement.
const Marker = "witness_"

// Numbered sends n statements over conns connections. The i-th, counted from 0,
// holds Marker and the number i in front of its end, in a place that masking
// leaves alone: an alias.
func Numbered(ctx context.Context, t Target, conns, n int) error {
	errs := make([]error, conns)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() { errs[i] = numberedOne(ctx, t, i, conns, n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func numberedOne(ctx context.Context, t Target, first, step, n int) error {
	c, err := connect(ctx, t, t.Users[first%len(t.Users)], "")
	if err != nil {
		return err
	}
	for i := first; i < n; i += step {
		if err := c.query(ctx, NumberedText(i), nil); err != nil {
			return errors.Join(err, c.close())
		}
		// The record would grow with the load.
		c.rec.Commands, c.tap.split.commands = c.rec.Commands[:0], c.tap.split.commands[:0]
	}
	return c.close()
}

// NumberedText is the text of the i-th numbered statement.
func NumberedText(i int) string { return fmt.Sprintf("SELECT 'secret %d' AS %s%d", i, Marker, i) }

// NumberedMasked is NumberedText with its literal masked.
func NumberedMasked(i int) string { return fmt.Sprintf("SELECT ? AS %s%d", Marker, i) }
