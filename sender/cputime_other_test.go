//go:build !linux

package sender

import (
	"testing"
	"time"
)

var processStart = time.Now()

// threadTime is the time that has passed.
func threadTime(testing.TB) time.Duration { return time.Since(processStart) }
