//go:build race

package stream

// raceEnabled tells tests that measure time that it means nothing.
const raceEnabled = true
