package stream

import (
	"reflect"
	"testing"

	"sqlwitness/probe"
)

// TestQueues: connections share the queues that none of them uses, one at a time;
// what is kept is little, and nothing of a command is left in it.
func TestQueues(t *testing.T) {
	env := NewEnv(Config{}, nil)
	open := func(commands int) *Conn {
		c := NewConn(env, probe.Flow{})
		c.waiting = env.takeQueue()
		for range commands {
			c.waiting = append(c.waiting, command{com: ComQuery, sql: []byte("select 1")})
		}
		return c
	}
	drain := func(c *Conn) {
		for len(c.waiting) > 0 {
			c.dropOldest()
		}
	}
	a, b := open(1), open(1)
	if &a.waiting[0] == &b.waiting[0] {
		t.Fatal("two connections have one queue")
	}
	first := &a.waiting[0]
	drain(a)
	if a.waiting != nil || len(env.queues) != 1 || !reflect.DeepEqual(*first, command{}) {
		t.Fatalf("%d queues, want 1 that is clean: %+v", len(env.queues), *first)
	}
	if a = open(1); &a.waiting[0] != first {
		t.Error("the queue is not used again")
	}
	a.dropWaiting()
	if len(env.queues) != 1 {
		t.Errorf("%d queues behind commands that were none, want 1", len(env.queues))
	}
	for _, n := range []int{copyQueue, 100, maxWaiting} { // what is left of them is a part of a large array
		c := open(n)
		before := len(env.queues)
		if drain(c); len(env.queues) != before {
			t.Errorf("a queue that had %d commands is kept", n)
		}
	}
	var all []*Conn
	for range 3 * maxQueues {
		all = append(all, open(1))
	}
	for _, c := range all {
		drain(c)
	}
	if len(env.queues) != maxQueues {
		t.Errorf("%d queues are kept, want %d", len(env.queues), maxQueues)
	}
}
