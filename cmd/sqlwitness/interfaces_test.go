package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sqlwitness/probe"
)

// filterEngine is a capture that notes its filters, and refuses them while it is told to.
type filterEngine struct {
	stillEngine
	mu      sync.Mutex
	refuses error
	seen    [][]int
}

func (e *filterEngine) SetFilter(f probe.Filter) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuses == nil {
		e.seen = append(e.seen, f.Interfaces)
	}
	return e.refuses
}

// last is the filter in force.
func (e *filterEngine) last() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen) == 0 {
		return []int{}
	}
	return e.seen[len(e.seen)-1]
}

// A fakeDevices is what a watch tells, or the error that it ends with. Each send is the
// end of a state.
type fakeDevices struct {
	states chan any // probe.Interfaces or error
	asked  chan time.Time
}

func (f *fakeDevices) watch(ctx context.Context, _ []string, changed func(probe.Interfaces)) error {
	f.asked <- time.Now()
	for {
		select {
		case s := <-f.states:
			if err, ok := s.(error); ok {
				return err
			}
			if changed(s.(probe.Interfaces)); ctx.Err() != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// followed runs followInterfaces with fake devices until f returns.
func followed(t *testing.T, f func(*live, *filterEngine, *fakeDevices, *bytes.Buffer)) error {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	log, e := new(bytes.Buffer), new(filterEngine)
	c := defaultConfig()
	l := &live{pipeline: &pipeline{config: &c}, engine: e, log: slog.New(slog.NewTextHandler(log, nil))}
	devices := &fakeDevices{states: make(chan any), asked: make(chan time.Time, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.followInterfaces(ctx, end, devices.watch)
	}()
	synctest.Wait()
	f(l, e, devices, log)
	end(nil)
	<-done
	return context.Cause(ctx)
}

// TestFollowingIsRetried: an error does not end the following of devices. It is tried
// again, ever more rarely, and logged once for each reason.
func TestFollowingIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		followed(t, func(l *live, e *filterEngine, d *fakeDevices, log *bytes.Buffer) {
			say := func(s any) { d.states <- s; synctest.Wait() }
			logged := func(want ...string) {
				t.Helper()
				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				log.Reset()
				if len(want) == 0 {
					want = []string{""}
				}
				if !slices.EqualFunc(lines, want, strings.Contains) {
					t.Errorf("logged %q, want %q", lines, want)
				}
			}
			say(probe.Interfaces{Indexes: []int{1, 2}})
			if got := e.last(); !slices.Equal(got, []int{1, 2}) || l.follow.lost.Load() {
				t.Errorf("captured on %v", got)
			}
			logged()

			last := <-d.asked
			var waits []time.Duration
			for range 9 {
				say(errors.New("list interfaces: no buffer"))
				if !l.follow.lost.Load() {
					t.Error("it is not told that devices are not followed")
				}
				again := <-d.asked
				waits = append(waits, again.Sub(last))
				last = again
			}
			want := []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
				3200 * time.Millisecond, 6400 * time.Millisecond, 10 * time.Second, 10 * time.Second, 10 * time.Second}
			if !slices.Equal(waits, want) {
				t.Errorf("tried again after %v, want %v", waits, want)
			}
			logged("no buffer")
			say(errors.New("open rtnetlink socket: too many files"))
			<-d.asked
			logged("too many files")

			say(probe.Interfaces{Indexes: []int{1, 2, 3}})
			if got := e.last(); !slices.Equal(got, []int{1, 2, 3}) || l.follow.lost.Load() {
				t.Errorf("captured on %v", got)
			}
			logged("followed again")
			at := time.Now()
			say(errors.New("list interfaces: no buffer"))
			if wait := (<-d.asked).Sub(at); wait != followRetry {
				t.Errorf("after a success the first wait is %v", wait)
			}
			logged("no buffer")
		})
	})
}

// TestFilterIsRetried: a filter that the kernel does not take leaves the old one in
// force, and is tried again.
func TestFilterIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		followed(t, func(l *live, e *filterEngine, d *fakeDevices, log *bytes.Buffer) {
			<-d.asked
			d.states <- probe.Interfaces{Indexes: []int{1}}
			synctest.Wait()
			e.mu.Lock()
			e.refuses = errors.New("set filter of ring 0: cannot allocate memory")
			e.mu.Unlock()
			for range 2 {
				d.states <- probe.Interfaces{Indexes: []int{1, 2}}
				<-d.asked
			}
			if n := strings.Count(log.String(), "cannot allocate memory"); n != 1 || !l.follow.lost.Load() || !slices.Equal(l.filter.Interfaces, []int{1}) {
				t.Errorf("told %d times, captured on %v: %s", n, l.filter.Interfaces, log)
			}
			e.mu.Lock()
			e.refuses = nil
			e.mu.Unlock()
			d.states <- probe.Interfaces{Indexes: []int{1, 2}}
			synctest.Wait()
			if got := e.last(); !slices.Equal(got, []int{1, 2}) || l.follow.lost.Load() {
				t.Errorf("captured on %v", got)
			}
		})
	})
}

// TestNamedInterfaceGone: a device that was asked for by name and is gone ends the run.
func TestNamedInterfaceGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := followed(t, func(_ *live, _ *filterEngine, d *fakeDevices, _ *bytes.Buffer) {
			d.states <- probe.Interfaces{Missing: []string{"eth7"}}
			synctest.Wait()
		})
		if err == nil || err.Error() != "interface eth7 is gone" {
			t.Error(err)
		}
	})
}

// TestManyDevices: more devices than a filter holds are no end: all there are are
// captured, and it is logged when that begins and ends. No device is still none.
func TestManyDevices(t *testing.T) {
	some := func(n int) probe.Interfaces {
		all := probe.Interfaces{Indexes: []int{}}
		for i := range n {
			all.Indexes = append(all.Indexes, i+1)
		}
		return all
	}
	synctest.Test(t, func(t *testing.T) {
		err := followed(t, func(l *live, e *filterEngine, d *fakeDevices, log *bytes.Buffer) {
			for _, step := range []struct {
				n    int
				all  bool
				said string
			}{{256, false, ""}, {257, true, "all devices are captured"}, {300, true, ""}, {256, false, "captured again"}, {0, false, ""}} {
				log.Reset()
				d.states <- some(step.n)
				synctest.Wait()
				got := e.last()
				if (got == nil) != step.all || !step.all && len(got) != step.n || l.follow.lost.Load() {
					t.Errorf("%d devices: captured on %v", step.n, got)
				}
				if s := log.String(); (s != "") != (step.said != "") || !strings.Contains(s, step.said) {
					t.Errorf("%d devices: %q, want %q", step.n, s, step.said)
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	var many []string
	for i := range 257 {
		many = append(many, fmt.Sprintf("eth%d", i))
	}
	_, stderr, code := call(t, "config", "check", "--interface", strings.Join(many, ","))
	if code != exitUsage || !strings.Contains(stderr, "capture.interfaces: number of names: 257 is not allowed") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
