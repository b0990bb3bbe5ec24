package watcher

import (
	"errors"
	"net"
	"sync/atomic"
)

// Bounds of one answer, whatever the server says: 100,000 sessions, which no server
// exceeds, take some 20 MB, and packets are put together before they are looked at.
const (
	maxAnswerBytes = 128 << 20
	maxAnswerRows  = 1 << 20
)

var errTooMuch = errors.New("the answer is larger than 128 MiB or 1,048,576 rows")

// A metered connection fails when an answer is too large.
type metered struct {
	net.Conn
	left *atomic.Int64 // bytes of the answer; below 0: it was too large
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.left.Add(-int64(n)) < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// expect begins a new answer.
func (c *client) expect() { c.left.Store(maxAnswerBytes) }

// cause tells why an answer was not read to its end: the driver does not.
func (c *client) cause(err error) error {
	if err != nil && c.left.Load() < 0 {
		return errTooMuch
	}
	return err
}
