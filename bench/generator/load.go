package generator

import (
	"errors"
	"fmt"
	"time"
)

// LoadConfig says what a client sends. It does so by a fixed schedule: statement
// k of all, counted from 0, is due at k/Rate after the start, on connection k
// modulo Conns, and its latency counts from there, whenever it could be sent. So
// a pause of the server is seen by all the statements that fell into it.
type LoadConfig struct {
	Addr     string // IP address and port
	User     string
	Password string
	Conns    int
	Rate     float64       // statements per second over all connections; 0 = the closed loop: the next when one is answered
	Duration time.Duration // of the schedule
	Depth    int           // commands in flight per connection at most
	SQLBytes int           // about the length of a statement; 0 = the shortest
	Prepared int           // statements to prepare on each connection and to execute in turn; 0 = the text protocol
}

// check names the first value that is not allowed.
func (c LoadConfig) check() error {
	switch {
	case c.Conns < 1 || c.Depth < 1:
		return errors.New("connections and depth must be at least 1")
	case c.Rate < 0 || c.Rate > 1e7 || c.Duration <= 0:
		return errors.New("the rate must be between 0 and 10,000,000, the duration above 0")
	case c.SQLBytes < 0 || c.SQLBytes > 1<<20 || c.Prepared < 0 || c.Prepared > 1000:
		return errors.New("a statement has up to 1 MiB, a connection up to 1,000 prepared ones")
	}
	return nil
}

// A LoadResult is what a client did. Latencies are in microseconds.
type LoadResult struct {
	Sent       int64        `json:"sent"` // each was answered
	Seconds    float64      `json:"seconds"`
	CPUSeconds float64      `json:"cpu_seconds"` // of the client's process, meanwhile
	P50        float64      `json:"p50_us"`
	P90        float64      `json:"p90_us"`
	P99        float64      `json:"p99_us"`
	P999       float64      `json:"p999_us"`
	Max        float64      `json:"max_us"`
	Numbered   []Connection `json:"connections"`
}

// A Connection says that the statements [0, Sent) went over a connection.
type Connection struct {
	ID   uint32 `json:"id"` // as the server named it
	Sent int64  `json:"sent"`
}

// PerSecond is the rate that was reached.
func (r LoadResult) PerSecond() float64 { return float64(r.Sent) / r.Seconds }

// String is one line for people.
func (r LoadResult) String() string {
	return fmt.Sprintf("%d statements on %d connections in %.2f s, %.0f/s; latency p50 %.0f, p90 %.0f, p99 %.0f, p99.9 %.0f, max %.0f µs; client CPU %.2f µs per statement",
		r.Sent, len(r.Numbered), r.Seconds, r.PerSecond(), r.P50, r.P90, r.P99, r.P999, r.Max, 1e6*r.CPUSeconds/float64(max(1, r.Sent)))
}
