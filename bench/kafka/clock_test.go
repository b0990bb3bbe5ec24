//go:build linux

package kafka_test

import (
	"testing"
	"time"

	"sqlwitness/sender"
)

// A broker refuses records of a time that is an hour ahead of its own clock. An agent
// whose clock is, or was when it read a capture, delivers its events all the same.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	name := topic(t, "ahead")
	s := sender.NewTo(sender.Config{Agent: "db1", Boot: "b1", Mask: true, Wait: true}, sender.Output{Name: "kafka", Records: kafkaSink(t, name, sender.EncodingJSON)})
	const each = 50
	for i := range 3 * each {
		e := command()
		e.TimeNs = time.Now().UnixNano()
		if i >= each && i < 2*each {
			e.TimeNs = time.Now().Add(24 * time.Hour).UnixNano()
		}
		s.Lane(0).Put(e)
	}
	s.Lane(0).Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Written != 3*each || st.Unwanted != 0 || st.Stubs != 0 {
		t.Errorf("%d written, %d without their SQL, %d refused", st.Written, st.Stubs, st.Unwanted)
	}
	if got := read(t, name, decodeJSON); got.records != 3*each || got.missing != 0 || got.repeated != 0 {
		t.Errorf("%v", got)
	}
}
