//go:build linux

package kafka_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"

	"sqlwitness/bench/truth"
	"sqlwitness/watcher"
)

// heard is what a topic tells, read by Kafka's own console consumer.
type heard struct {
	*judge   // of the seqs
	sessions map[string]*heardSession
	astray   int   // commands out of order in their session, or in a second partition
	others   int   // events that are no commands
	weight   int64 // questions that the commands are, as the server counts

	queries  map[string]int            // Query commands by user
	commands map[string]map[string]int // commands by user and sql_command, "" where there is none
	mixed    []truth.Event             // of the users that truth.Compare looks at
}

type heardSession struct {
	last      int64 // session_seq
	partition int
}

// heardEvent is what a record holds.
type heardEvent struct {
	truth.Event
	SQLCommand string `json:"sql_command"`
	Results    *int64 `json:"results"`
}

// hear reads a topic. Events of all users but one are kept whole.
func hear(t *testing.T, topic, but string) *heard {
	t.Helper()
	h := &heard{judge: newJudge(), sessions: map[string]*heardSession{}, queries: map[string]int{}, commands: map[string]map[string]int{}}
	n := size(t, topic)
	cmd := shared.ConsoleConsumer(t.Context(), topic, n)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, h.line(line, but)); err != nil {
			t.Fatalf("%v: %.300q", err, line)
		}
	}
	if err := cmd.Wait(); err != nil || int64(h.records) != n {
		t.Fatalf("the console consumer: %v, %d of %d records: %s", err, h.records, n, said.Bytes())
	}
	h.verdict()
	return h
}

// line takes "Partition:N", a tab and the value of a record.
func (h *heard) line(line []byte, but string) error {
	name, value, ok := bytes.Cut(line, []byte("\t"))
	partition, err := strconv.Atoi(string(bytes.TrimPrefix(name, []byte("Partition:"))))
	if err != nil || !ok {
		return errors.New("no partition and value")
	}
	var e heardEvent
	if err := json.Unmarshal(value, &e); err != nil {
		return err
	}
	before := h.repeated
	h.add(e.Lane, uint64(e.Seq))
	if h.repeated > before {
		return nil
	}
	user := ""
	if e.User != nil {
		user = *e.User
	}
	if e.Type == "command" {
		h.command(partition, user, &e)
	} else {
		h.others++
	}
	if user != but && e.Session != "" {
		e.Seq = 0 // the seqs of a part have holes; they are judged here
		h.mixed = append(h.mixed, e.Event)
	}
	return nil
}

func (h *heard) command(partition int, user string, e *heardEvent) {
	s := h.sessions[e.Session]
	if s == nil {
		s = &heardSession{partition: partition}
		h.sessions[e.Session] = s
	}
	if e.SessionSeq != s.last+1 || partition != s.partition {
		h.astray++
	}
	s.last = e.SessionSeq
	h.weight += questions(e)
	if e.Command == "Query" {
		h.queries[user]++
	}
	if h.commands[user] == nil {
		h.commands[user] = map[string]int{}
	}
	h.commands[user][e.SQLCommand]++
}

// questions is by how much a command raised the server's Questions: a Query for
// each of its statements that ran, the failed one included.
func questions(e *heardEvent) int64 {
	if e.Command == "Query" && e.SQLCommand != "call" && e.Results != nil {
		return max(*e.Results, 1)
	}
	weight, known := watcher.QuestionWeight(e.Command, watcher.MariaDB)
	if !known {
		panic(fmt.Sprintf("%s has no weight", e.Command))
	}
	return int64(weight)
}
