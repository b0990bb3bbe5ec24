// Package losscheck counts, in the agent's JSON output, statements that carry a
// number, and so tells loss, repetition and damage apart.
package losscheck

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"sqlwitness/bench/load"
	"sqlwitness/bench/truth"
)

// A Result says what became of the statements sent. Sent = Audited + Lost.
type Result struct {
	Sent     int
	Audited  int // seen at least once
	Lost     int
	Repeated int // seen again; each time counts
	Damaged  int // events whose text, status or rows are not those of the statement

	CPU      time.Duration // of the agent, while the server got
	Measured int           // so many statements
}

// OK tells whether all that was sent was audited once, and undamaged.
func (r Result) OK() bool { return r.Lost+r.Repeated+r.Damaged == 0 && r.Sent == r.Audited }

// Add sums two results.
func (r Result) Add(o Result) Result {
	return Result{r.Sent + o.Sent, r.Audited + o.Audited, r.Lost + o.Lost, r.Repeated + o.Repeated, r.Damaged + o.Damaged,
		r.CPU + o.CPU, r.Measured + o.Measured}
}

// FromReport is the result of a comparison with the truth.
func FromReport(r *truth.Report) Result {
	return Result{Sent: r.Wanted, Audited: r.Wanted - r.Missing, Lost: r.Missing, Repeated: r.Extra, Damaged: r.Damaged + r.OutOfOrder + r.Broken}
}

// String is one line for people.
func (r Result) String() string {
	s := fmt.Sprintf("sent %s statements, audited %s, lost %s, repeated %s, damaged %s",
		thousands(r.Sent), thousands(r.Audited), thousands(r.Lost), thousands(r.Repeated), thousands(r.Damaged))
	if r.Measured > 0 {
		s += fmt.Sprintf("; agent CPU %.1f µs per statement", float64(r.CPU.Nanoseconds())/1e3/float64(r.Measured))
	}
	return s
}

// thousands writes 5042 as 5,042.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// event is the part of an audit event that a numbered statement decides.
type event struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	SQL     string `json:"sql"`
	Status  string `json:"status"`
	Rows    int64  `json:"rows"`
}

// Count reads the output of an agent with masking on, while load.Numbered sent
// the numbers in [0, n). Events without such a number are passed over.
func Count(r io.Reader, n int) (Result, error) {
	res := Result{Sent: n}
	seen := make([]uint8, n)
	err := eachLine(r, func(line []byte) error {
		if !bytes.Contains(line, []byte(load.Marker)) {
			return nil
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%w: %.200s", err, line)
		}
		i, ok := number(e.SQL)
		if !ok || i >= n || e.SQL != load.NumberedMasked(i) || e.Type != "command" || e.Command != "Query" || e.Status != "ok" || e.Rows != 1 {
			res.Damaged++
		}
		if !ok || i >= n {
			return nil
		}
		if seen[i] > 0 {
			res.Repeated++
		} else {
			res.Audited++
			seen[i] = 1
		}
		return nil
	})
	res.Lost = res.Sent - res.Audited
	return res, err
}

// number is what follows the marker at the end of a text.
func number(sql string) (int, bool) {
	at := strings.LastIndex(sql, load.Marker)
	if at < 0 {
		return 0, false
	}
	i, err := strconv.ParseUint(sql[at+len(load.Marker):], 10, 31)
	return int(i), err == nil
}

// CountContaining counts the lines that hold all of the parts. It is for loads
// whose statements have no number of their own.
func CountContaining(r io.Reader, parts ...string) (int, error) {
	n := 0
	err := eachLine(r, func(line []byte) error {
		for _, p := range parts {
			if !bytes.Contains(line, []byte(p)) {
				return nil
			}
		}
		n++
		return nil
	})
	return n, err
}

func eachLine(r io.Reader, f func(line []byte) error) error {
	br := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			if err := f(line); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
