package main

import (
	"strings"
	"testing"

	"sqlwitness/sender"
)

// What is allowed is what is done: no bound is raised silently.
func TestEventBound(t *testing.T) {
	c := defaultConfig()
	c.Events.MaxBytes = sender.MinMaxEventBytes - 1
	if err := c.validate(); err == nil || !strings.Contains(err.Error(), "events.max_event_bytes") {
		t.Errorf("%d bytes: %v", c.Events.MaxBytes, err)
	}
	c.Events.MaxBytes++
	if err := c.validate(); err != nil {
		t.Errorf("%d bytes: %v", c.Events.MaxBytes, err)
	}
}
