package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"sqlwitness/probe"
)

// How long a run waits before it lists the devices again, after an error: twice as long
// with each one in a row.
const (
	followRetry     = 200 * time.Millisecond
	followRetryMost = 10 * time.Second
)

// following is how a run keeps up with the devices that come and go. The zero value:
// it does.
type following struct {
	lost     atomic.Bool // it does not, at the moment
	told     string      // why, as it was logged last
	allTaken bool        // there are more devices than a filter holds
}

// A watchInterfaces is probe.WatchInterfaces, or what a test has in its place.
type watchInterfaces func(ctx context.Context, names []string, changed func(probe.Interfaces)) error

// followInterfaces swaps the kernel's filter when devices come and go, until ctx is
// done. A device that was asked for by name and is gone ends the run. While the devices
// cannot be listed, or the filter not be swapped, the capture goes on with those it has.
func (l *live) followInterfaces(ctx context.Context, end context.CancelCauseFunc, watch watchInterfaces) {
	wait := followRetry
	for {
		var failed error // of a swap
		watching, stop := context.WithCancel(ctx)
		err := watch(watching, l.config.Capture.Interfaces, func(now probe.Interfaces) {
			if len(now.Missing) > 0 {
				end(fmt.Errorf("interface %s is gone", strings.Join(now.Missing, ", ")))
				return
			}
			if failed = l.captureOn(now.Indexes); failed != nil {
				stop()
				return
			}
			wait = followRetry
			l.tellFollowing(nil)
		})
		stop()
		if ctx.Err() != nil {
			return
		}
		l.tellFollowing(errors.Join(err, failed))
		if errors.Is(err, probe.ErrNoLiveCapture) {
			return // not on this system
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, followRetryMost)
	}
}

// captureOn swaps the filter. Where there are more devices than a filter holds, it lets
// all pass: nobody who says auto wants the capture to end for that.
func (l *live) captureOn(devices []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	filter := l.filter
	filter.Interfaces = probe.AllowInterfaces(devices)
	if err := l.engine.SetFilter(filter); err != nil {
		return err
	}
	l.filter.Interfaces = filter.Interfaces
	l.tellAllTaken(len(devices))
	return nil
}

// tellAllTaken logs when the limit is passed, and when it is kept again.
func (l *live) tellAllTaken(devices int) {
	over := devices > probe.MaxInterfaces
	if over == l.follow.allTaken {
		return
	}
	l.follow.allTaken = over
	if over {
		l.log.Warn("more devices carry an address than a filter holds, so all devices are captured, also those without one",
			"devices", devices, "most", probe.MaxInterfaces, "cure", "name the devices in capture.interfaces")
	} else {
		l.log.Info("only the devices that carry an address are captured again", "devices", devices)
	}
}

// tellFollowing logs each change of the state, and of the reason.
func (l *live) tellFollowing(err error) {
	l.follow.lost.Store(err != nil)
	switch {
	case err == nil && l.follow.told != "":
		l.follow.told = ""
		l.log.Info("interfaces are followed again")
	case err != nil && l.follow.told != err.Error():
		l.follow.told = err.Error()
		l.log.Warn("interfaces are not followed, the capture goes on with those it has", "err", err)
	}
}
