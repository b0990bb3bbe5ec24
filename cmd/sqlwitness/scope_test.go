package main

import (
	"testing"

	"sqlwitness/watcher"
)

// A server that does not count Questions, or counts others, is not compared.
func TestQuestionsNotCounted(t *testing.T) {
	s := scope{ports: []uint16{3306}, interfaces: []string{"auto"}}
	for _, c := range []struct {
		questions, own, connects uint64
		full                     bool
	}{{100, 10, 0, true}, {10, 10, 0, true}, {0, 10, 0, false}, {9, 10, 0, false}, {9, 10, 1, true}} {
		base, now := &reading{}, &reading{info: watcher.ServerInfo{Port: 3306}}
		base.server = watcher.Counters{Questions: 5, OwnQuestions: 7}
		now.server = watcher.Counters{Questions: 5 + c.questions, OwnQuestions: 7 + c.own, OwnConnects: c.connects, Local: true}
		if why := s.blind(base, now); (why == "") != c.full {
			t.Errorf("%+v: %q", c, why)
		}
	}
}
