package main

import (
	"context"
	"log/slog"
	"time"

	"sqlwitness/sender"
)

const (
	// lossPoll is how often the counts of what was lost are looked at.
	lossPoll = time.Second
	// lossQuiet is how long a count must have stood still to be over.
	lossQuiet = 5 * time.Second
)

// A growth follows a count that should stand still, and tells when it begins to
// rise, and when it has not for a while.
type growth struct {
	n, before uint64    // now, and when it began
	at        time.Time // of the last rise; zero: it stands still
}

// take takes the count as of now.
func (g *growth) take(n uint64, now time.Time) (begins, ends bool) {
	switch {
	case n != g.n:
		if begins = g.at.IsZero(); begins {
			g.before = g.n
		}
		g.n, g.at = n, now
	case !g.at.IsZero() && now.Sub(g.at) >= lossQuiet:
		g.at, ends = time.Time{}, true
	}
	return begins, ends
}

// A lossWatch follows what one output loses, and how its spool is.
type lossWatch struct {
	log                    *slog.Logger
	lost, refused, damaged growth
	unread                 bool
}

// look logs what has changed. st and sp are the output's counts and its spool's,
// which are zero if it has none.
func (w *lossWatch) look(st sender.Stats, sp sender.SpoolStats, now time.Time) {
	begins, ends := w.refused.take(sp.Refused, now)
	if begins {
		w.log.Warn("the spool takes nothing, events wait in memory", "err", sp.LastError)
	} else if ends {
		w.log.Info("the spool takes events again")
	}
	if unread := sp.Unread != nil; unread != w.unread {
		if w.unread = unread; unread {
			w.log.Warn("the spool cannot be read, events wait behind it", "err", sp.Unread)
		} else {
			w.log.Info("the spool is read again")
		}
	}
	if begins, _ := w.damaged.take(sp.DamagedPlaces, now); begins {
		w.log.Warn("the spool is damaged, what cannot be read of it is lost", "events", sp.Damaged, "err", sp.LastError)
	}
	begins, ends = w.lost.take(st.Refused+st.SpoolDropped+st.Unwanted, now)
	if begins {
		w.log.Warn("events are lost", "queue full", st.Refused, "spool full", sp.DroppedSize, "too old", sp.DroppedAge, "damaged", sp.Damaged, "refused by the sink", st.Unwanted)
	} else if ends {
		w.log.Warn("no more events are lost", "lost", w.lost.n-w.lost.before)
	}
}

// tellLosses watches all outputs until ctx is done.
func (l *live) tellLosses(ctx context.Context) {
	watches := make([]lossWatch, len(l.outputs))
	for i, name := range l.outputs {
		watches[i].log = l.log.With("sink", name)
	}
	tick := time.NewTicker(lossPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for i := range watches {
				sp, _ := l.sender.SpoolStats(i)
				watches[i].look(l.sender.OutputStats(i), sp, now)
			}
		}
	}
}
