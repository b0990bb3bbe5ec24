package questions

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
)

// A Truth is what clients have sent over TCP, in questions as the server counts
// them. Statements of Query commands are numbered; other commands are counted by
// the port of their client.
type Truth struct {
	mu      sync.Mutex
	numbers int
	others  map[other]int
}

// other is a command without a number in its text.
type other struct {
	port    int
	command string // as the events name it
}

// number gives a statement the next number, in a comment in front of it.
func (t *Truth) number(text string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.numbers++
	return fmt.Sprintf("/*w%d*/ %s", t.numbers-1, text)
}

func (t *Truth) count(port int, command string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.others == nil {
		t.others = make(map[other]int)
	}
	t.others[other{port, command}]++
}

// Sent is the number of questions sent.
func (t *Truth) Sent() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.numbers
	for _, count := range t.others {
		n += count
	}
	return n
}

var marker = regexp.MustCompile(`/\*w(\d+)\*/`)

// Audited reads the events of an agent that does not mask, and counts the questions
// of this truth that are in them.
func (t *Truth) Audited(events io.Reader) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen, others, n := make([]bool, t.numbers), make(map[other]int), 0
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Type, Command, SQL string
			Port               int `json:"client_port"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return n, fmt.Errorf("%w: %.200s", err, lines.Bytes())
		}
		if e.Type != "command" {
			continue
		}
		numbers := marker.FindAllStringSubmatch(e.SQL, -1)
		for _, m := range numbers {
			i, _ := strconv.Atoi(m[1])
			if i >= len(seen) || seen[i] {
				return n, fmt.Errorf("number %d comes twice or was never sent: %s", i, e.SQL)
			}
			seen[i] = true
			n++
		}
		if k := (other{e.Port, e.Command}); len(numbers) == 0 && others[k] < t.others[k] {
			others[k]++
			n++
		}
	}
	return n, lines.Err()
}
