//go:build linux

package questions

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
)

// TestSockets: what comes over the unix socket is told apart where
// performance_schema counts it and no session is reset, and else the loss is a range
// that holds the truth; also where the agent has really lost something, because it did
// not run for a while.
func TestSockets(t *testing.T) {
	for _, c := range []struct {
		name          string
		args          []string
		lossy, resets bool
	}{
		{"schema", schemaOn, false, false}, {"without", schemaOff, false, false},
		{"schema_burst", schemaOn, true, false}, {"without_burst", schemaOff, true, false},
		{"schema_resets", schemaOn, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := startServer(t, mariadb.Options{Args: c.args})
			var truth Truth
			a := capture(t, srv, setting{small: c.lossy})
			var onSocket atomic.Int64
			var lost func()
			if c.lossy {
				filler, err := Open(t.Context(), "tcp", srv.Addr("127.0.0.1"), &truth)
				if err != nil {
					t.Fatal(err)
				}
				lost = pause(t, a, filler)
			}
			load := func(i int) error {
				network, addr := "tcp", srv.Addr("127.0.0.1")
				if i%2 == 1 {
					network, addr = "unix", srv.Socket
				}
				s, err := Open(t.Context(), network, addr, &truth)
				if err != nil {
					return err
				}
				for round := range 50 {
					err := errors.Join(s.Plain(100), s.texts(), s.prepared())
					if err == nil && (c.resets || network == "tcp" && !c.lossy && round%3 == 0) {
						err = s.states()
					}
					if err != nil {
						return err
					}
				}
				err = s.Quit()
				if i%2 == 1 {
					onSocket.Add(int64(s.Sent))
				}
				return err
			}
			if c.lossy {
				each(t, 2, load)
				lost()
			}
			each(t, 4, load)
			last, audited := a.finish(t, &truth)
			real := 1 - float64(audited)/float64(truth.Sent())
			t.Logf("sent %d, in the events %d, real loss %.3f %%, over the socket %d; %v", truth.Sent(), audited, real*100, onSocket.Load(), last)
			if c.lossy != (real > 0.05) || truth.Sent() < 10000 {
				t.Errorf("the real loss is %.3f %%", real*100)
			}
			if last.Coverage != "full" || last.LossMin == nil || *last.LossMin > real+clean || *last.LossMax < real-clean {
				t.Fatalf("the range does not hold the truth: %v", last)
			}
			if n := uint64(onSocket.Load()); last.SocketMin > n || last.SocketMax < n {
				t.Errorf("%d questions over the socket", n)
			}
			if c.args == nil || c.resets {
				if last.Loss != nil || *last.LossMax < real+0.05 {
					t.Errorf("nobody can know the loss: %v", last)
				}
				return
			}
			near(t, "loss", last.Loss, real, 0.002)
			if last.SocketMin != last.SocketMax {
				t.Errorf("sockets are not told apart: %v", last)
			}
		})
	}
}

// pause stops the agent, and fills its ring, until the function that it returns is
// called. The ring holds 2.4 s of ticks: what comes later is lost.
func pause(t *testing.T, a *run, filler *Session) (goOn func()) {
	t.Helper()
	if err := a.Pause(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := filler.Plain(1); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := a.Resume(); err != nil {
			t.Error(err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}
