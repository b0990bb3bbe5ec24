//go:build linux

package questions

import (
	"testing"

	"sqlwitness/bench/mariadb"
)

// schemaOn is a server that tells unix sockets apart, schemaOff the default one.
var (
	schemaOn  = []string{"--performance-schema=ON"}
	schemaOff []string
)

// near checks a share within a bound.
func near(t *testing.T, what string, got *float64, want, within float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is not stated", what)
	} else if *got < want-within || *got > want+within {
		t.Errorf("%s is %.4f %%, want %.4f ± %.2f", what, *got*100, want*100, within*100)
	}
}

const clean = 0.001 // what a loss may be off on a run that loses nothing

// TestClean: all kinds of commands, from connections older than the agent and from
// new ones that come and go, and nothing is lost: so says the last report, and no
// report before it denies it.
func TestClean(t *testing.T) {
	for name, args := range map[string][]string{"performance_schema": schemaOn, "without": schemaOff} {
		t.Run(name, func(t *testing.T) {
			srv := startServer(t, mariadb.Options{Args: args})
			var truth Truth
			older := make([]*Session, 4)
			each(t, len(older), func(i int) (err error) {
				older[i], err = Open(t.Context(), "tcp", srv.Addr("127.0.0.1"), new(Truth))
				if err == nil {
					err = older[i].Round(3)
				}
				return err
			})
			a := capture(t, srv, setting{})
			each(t, 8, func(i int) error { return mixed(t, srv, older, i, &truth) })
			last, audited := a.finish(t, &truth)
			t.Logf("sent %d, in the events %d; %v", truth.Sent(), audited, last)
			if audited != truth.Sent() || truth.Sent() < 20000 {
				t.Errorf("%d of %d questions are in the events", audited, truth.Sent())
			}
			if last.Coverage != "full" || last.Questions < uint64(truth.Sent()) || last.SocketMax != 0 {
				t.Errorf("%v", last)
			}
			near(t, "loss", last.Loss, 0, clean)
			near(t, "loss_min", last.LossMin, 0, clean)
			near(t, "loss_max", last.LossMax, 0, clean)
			checkReports(t, a.reports(t))
		})
	}
}

// mixed is one client's load: an older session, and new ones.
func mixed(t *testing.T, srv *mariadb.Server, older []*Session, i int, truth *Truth) error {
	for round := range 24 {
		s, own := (*Session)(nil), i < len(older)
		if own {
			s = older[i]
			s.truth = truth
		} else {
			var err error
			if s, err = Open(t.Context(), "tcp", srv.Addr("127.0.0.1"), truth); err != nil {
				return err
			}
		}
		if err := s.Round(30); err != nil {
			return err
		}
		switch {
		case own:
		case round%3 == 0:
			if err := s.Drop(); err != nil {
				return err
			}
		default:
			if err := s.Quit(); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkReports: what is stated while commands are under way may be wide, but holds
// the truth.
func checkReports(t *testing.T, all []*Report) {
	t.Helper()
	stated := 0
	for _, s := range all {
		for _, c := range []*Report{s, s.Interval} {
			if c == nil || c.LossMin == nil {
				continue
			}
			stated++
			if *c.LossMin > 0 || *c.LossMax < 0 {
				t.Errorf("a loss is stated where there is none: %v", c)
			}
		}
	}
	if stated < 4 {
		t.Errorf("only %d of %d reports state a loss", stated, len(all))
	}
}
