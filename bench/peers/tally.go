package peers

import "sqlwitness/bench/generator"

// A Statement is one that a tool says it saw.
type Statement struct {
	Connection uint32 // as the server numbers it; 0 = the tool does not tell
	Number     int64  // of its connection; its low 16 bits if Connection is known
	Text       bool   // the text is right
	User       string
}

// Counts say what a tool made of the load. Sent = Seen + Lost.
type Counts struct {
	Sent     int64 `json:"sent"`
	Seen     int64 `json:"seen"`
	Lost     int64 `json:"lost"`
	Repeated int64 `json:"repeated"` // seen too often, or never sent
	Text     int64 `json:"text"`     // of Seen: with the right text
	Users    int64 `json:"users"`    // of Seen: with a user
	User     int64 `json:"user"`     // of Seen: with the right user
}

// A tally counts statements. Each connection has numbered its own from 0, so a
// number alone is expected as often as there are connections that sent it; a tool
// that tells the connections is held to each of them.
type tally struct {
	Counts
	user string
	left map[key]int64 // how often each is still to come
}

type key struct {
	connection uint32
	number     int64
}

// lowBits are what the count of warnings in a response holds of a number.
const lowBits = 1 << 16

// newTally expects what connections sent. Named says that the tool tells the
// connection and the low bits of the number.
func newTally(sent []generator.Connection, named bool, user string) *tally {
	t := &tally{user: user, left: map[key]int64{}}
	for _, c := range sent {
		t.Sent += c.Sent
		for n := range c.Sent {
			if named {
				t.left[key{c.ID, n % lowBits}]++
			} else {
				t.left[key{0, n}]++
			}
		}
	}
	t.Lost = t.Sent
	return t
}

// see counts a statement.
func (t *tally) see(s Statement) {
	k := key{s.Connection, s.Number}
	if t.left[k] == 0 {
		t.Repeated++
		return
	}
	t.left[k]--
	t.Seen++
	t.Lost--
	if s.Text {
		t.Text++
	}
	if s.User != "" {
		t.Users++
	}
	if s.User == t.user {
		t.User++
	}
}
