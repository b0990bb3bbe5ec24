package truth

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// An Event is what Compare reads of one line of the agent's output. A number
// that the line does not have is nil.
type Event struct {
	Type         string   `json:"type"`
	Time         string   `json:"time"`
	Lane         int      `json:"lane"`
	Seq          int64    `json:"seq"`
	Session      string   `json:"session"`
	SessionSeq   int64    `json:"session_seq"`
	ConnectionID uint64   `json:"connection_id"`
	User         *string  `json:"user"`
	DB           *string  `json:"db"`
	Command      string   `json:"command"`
	SQL          *string  `json:"sql"`
	SQLBytes     *int64   `json:"sql_bytes"`
	SQLTruncated bool     `json:"sql_truncated"`
	Status       string   `json:"status"`
	ErrorCode    *int64   `json:"error_code"`
	Rows         *int64   `json:"rows"`
	Affected     *int64   `json:"affected_rows"`
	Flags        []string `json:"flags"`
	Visibility   string   `json:"visibility"`
	EndReason    string   `json:"end_reason"`
	Commands     *int64   `json:"commands"`
}

// ReadEvents reads the agent's output, one JSON object per line.
func ReadEvents(r io.Reader) ([]Event, error) {
	var events []Event
	br := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			var e Event
			if jsonErr := json.Unmarshal(line, &e); jsonErr != nil {
				return nil, fmt.Errorf("event in line %d: %w: %s", n, jsonErr, clip(line))
			}
			events = append(events, e)
		}
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read events, line %d: %w", n, err)
		}
	}
}

// EventsFile is ReadEvents of a file.
func EventsFile(path string) ([]Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadEvents(f)
}
