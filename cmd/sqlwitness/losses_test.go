package main

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sqlwitness/sender"
)

// TestLossWatch: what is lost is told when it begins and when it is over, not while
// it goes on.
func TestLossWatch(t *testing.T) {
	var b bytes.Buffer
	w := lossWatch{log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: dropTime}))}
	full, torn := errors.New("no space left"), errors.New("checksum")
	for i, c := range []struct {
		second int
		st     sender.Stats
		sp     sender.SpoolStats
		want   []string // what lines have
	}{
		{0, sender.Stats{}, sender.SpoolStats{}, nil},
		{1, sender.Stats{SpoolDropped: 3}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, LastError: torn}, []string{`level=WARN msg="the spool is damaged, what cannot be read of it is lost" events=3 err=checksum`, `level=WARN msg="events are lost" "queue full"=0 "spool full"=0 "too old"=0 damaged=3 "refused by the sink"=0`}},
		{3, sender.Stats{SpoolDropped: 3}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, Refused: 1, LastError: full}, []string{`level=WARN msg="the spool takes nothing, events wait in memory" err="no space left"`}},
		{5, sender.Stats{SpoolDropped: 3, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, Refused: 9, LastError: full}, nil},
		{9, sender.Stats{SpoolDropped: 3, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, Refused: 9}, nil},
		{10, sender.Stats{SpoolDropped: 3, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, Refused: 9}, []string{`level=INFO msg="the spool takes events again"`, `level=WARN msg="no more events are lost" lost=10`}},
		{60, sender.Stats{SpoolDropped: 3, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, Refused: 9}, nil},
		{61, sender.Stats{SpoolDropped: 5, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, DroppedSize: 2, Refused: 9}, []string{`level=WARN msg="events are lost" "queue full"=7 "spool full"=2 "too old"=0 damaged=3 "refused by the sink"=0`}},
		{62, sender.Stats{SpoolDropped: 5, Refused: 7, Unwanted: 1}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, DroppedSize: 2, Refused: 9}, nil},
		{67, sender.Stats{SpoolDropped: 5, Unwanted: 1, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, DroppedSize: 2, Refused: 9}, []string{`level=WARN msg="no more events are lost" lost=3`}},
		{68, sender.Stats{SpoolDropped: 5, Unwanted: 1, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, DroppedSize: 2, Refused: 9, Unread: full}, []string{`level=WARN msg="the spool cannot be read, events wait behind it" err="no space left"`}},
		{69, sender.Stats{SpoolDropped: 5, Unwanted: 1, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, DroppedSize: 2, Refused: 9, Unread: torn}, nil},
		{70, sender.Stats{SpoolDropped: 5, Unwanted: 1, Refused: 7}, sender.SpoolStats{DamagedPlaces: 1, Damaged: 3, DroppedSize: 2, Refused: 9}, []string{`level=INFO msg="the spool is read again"`}},
	} {
		b.Reset()
		w.look(c.st, c.sp, time.Unix(int64(1000+c.second), 0))
		if got := strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' }); !slices.Equal(got, c.want) {
			t.Errorf("look %d says\n%s\nwant\n%s", i, b.String(), strings.Join(c.want, "\n"))
		}
	}
}
