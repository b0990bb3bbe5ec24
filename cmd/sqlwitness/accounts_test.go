package main

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// audited are accounts whose server was sent as many queries as n says.
func audited(n *uint64) *accounts {
	return &accounts{scope: testScope(), tallies: func() []stream.Tally {
		one := stream.Tally{Server: netip.MustParseAddrPort("127.0.0.1:3306")}
		one.Commands[stream.ComQuery.Index()] = *n
		return []stream.Tally{one}
	}}
}

// TestSettle: a reading begins two ticks after the agent's last question, or after
// four tries.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked []uint64 // what the agent has asked, each time that it is looked at
		own   uint64
		tries int
	}{
		{"quiet", []uint64{5, 5, 6}, 5, 1},
		{"a poll is under way", []uint64{5, 7, 7, 7, 8}, 7, 2},
		{"between two tries", []uint64{5, 6, 7, 7, 8}, 7, 2},
		{"always", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 8, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, looks := time.Now(), 0
				a := audited(new(uint64))
				sent := func() uint64 { return uint64(100 + time.Since(began)/time.Millisecond) }
				tallies := a.tallies
				a.tallies = func() []stream.Tally {
					all := tallies()
					all[0].Commands[stream.ComQuery.Index()] = sent()
					return all
				}
				r := testReading()
				own := a.settle(r, func() uint64 { looks++; return c.asked[looks-1] })
				took := time.Duration(c.tries) * settleTicks * a.scope.tick
				if own != c.own || looks != 2*c.tries || r.earlyNs != began.Add(took).UnixNano() || r.early.questions != uint64(100+took/time.Millisecond) {
					t.Errorf("own %d, %d looks, early %d after %v", own, looks, r.early.questions, time.Duration(r.earlyNs-began.UnixNano()))
				}
			})
		})
	}
}

// TestReadings: the first reading, and one behind a reset, begin the comparison; the
// others are held against it and against the one before.
func TestReadings(t *testing.T) {
	n := uint64(0)
	a := audited(&n)
	at := func(second int64, counted, seen uint64, change func(*reading)) *serverReport {
		n = seen
		r := testReading()
		r.server.StatusNs, r.server.BeginNs = second*int64(time.Second), second*int64(time.Second)
		r.server.Uptime, r.server.SinceFlush = time.Duration(second)*time.Second, time.Duration(second)*time.Second
		r.info.Version, r.server.Questions = "11.8", counted
		r.early.questions, r.earlyNs, r.lateNs = seen, r.server.StatusNs-1, r.server.StatusNs+1
		change(r)
		report := a.end(r)
		if report != a.report.Load() || !report.Watched || report.Version != "11.8" || a.last != nil && a.last != r || r.lateNs != r.server.StatusNs+1 {
			t.Errorf("second %d: %+v is not what is told", second, report)
		}
		return report
	}
	asIs := func(*reading) {}
	holds := func(r *serverReport, since int64, questions, audited, lately, auditedLately uint64, seconds float64) {
		t.Helper()
		if r.Since != time.Unix(since, 0).UTC() || r.Questions != questions || r.Audited != audited || r.Interval == nil ||
			r.Interval.Questions != lately || r.Interval.Audited != auditedLately || r.Interval.Seconds != seconds {
			t.Errorf("%+v %+v", r, r.Interval)
		}
	}
	first := at(100, 1000, 500, asIs)
	if first.Interval != nil || first.Coverage != coveragePartial || !strings.HasPrefix(first.Reason, "the first reading") || first.Since != time.Unix(100, 0).UTC() {
		t.Errorf("%+v", first)
	}
	holds(at(110, 1100, 590, asIs), 100, 100, 90, 100, 90, 10)
	holds(at(125, 1130, 610, asIs), 100, 130, 110, 30, 20, 15)

	// Questions of the agent behind the server's count are not in it.
	holds(at(130, 1140, 625, func(r *reading) { r.early.questions, r.after = 620, 5 }), 100, 140, 120, 10, 10, 5)

	// Sessions on the socket and with TLS count from when they were first seen.
	r := at(140, 1150, 630, func(r *reading) { r.sockets, r.hidden = 2, 3 })
	if a.base.sockets != 2 || a.base.hidden != 3 || r.Coverage != coveragePartial {
		t.Errorf("%d sockets, %d with TLS, %s", a.base.sockets, a.base.hidden, r.Coverage)
	}
	at(150, 1160, 640, func(r *reading) { r.sockets, r.hidden = 1, 1 })
	if a.base.sockets != 2 || a.base.hidden != 3 {
		t.Errorf("%d sockets, %d with TLS after they ended", a.base.sockets, a.base.hidden)
	}

	anew := at(160, 1120, 650, asIs) // less than before, though more than at first
	if anew.Interval != nil || !strings.HasSuffix(anew.Reason, "(FLUSH STATUS): counted from here") || a.base != a.last {
		t.Errorf("%+v", anew)
	}
	r = at(170, 1130, 660, asIs)
	holds(r, 160, 10, 10, 10, 10, 10)
	if r.Coverage != coverageFull {
		t.Errorf("coverage %s: %s", r.Coverage, r.Reason)
	}

	// The address has gone over to another server behind the last poll: neither with
	// the one before nor with the poll's server is it to be compared.
	r = at(180, 9000, 670, func(r *reading) { r.server.Hostname = "db2" })
	if r.Interval != nil || r.Coverage != coveragePartial || !strings.Contains(r.Reason, "another server") || !r.Since.IsZero() || a.base != nil {
		t.Errorf("%+v", r)
	}
	if r = at(190, 9010, 680, asIs); r.Interval != nil || a.base != a.last {
		t.Errorf("%+v", r)
	}
}

// TestEndTime: where nobody says until when the capture ran, it ran until now; no
// more questions are taken off than there are.
func TestEndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := uint64(3)
		a, r := audited(&n), testReading()
		r.after, r.info.Flavour = 7, watcher.MariaDB
		a.end(r)
		if r.lateNs != time.Now().UnixNano() || r.late.questions != 0 {
			t.Errorf("late %d at %d", r.late.questions, r.lateNs)
		}
	})
}
