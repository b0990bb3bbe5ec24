package sender

import (
	"math/rand/v2"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// ordered tells whether spans are in the order of sql and do not overlap.
func ordered(spans []span, sql string) bool {
	from := int32(0)
	for _, s := range spans {
		if s.start < from || s.end <= s.start || int(s.end) > len(sql) {
			return false
		}
		from = s.end
	}
	return true
}

// A name in double quotes where a credential belongs is one span, not two.
func TestCredentialInANSIQuotes(t *testing.T) {
	ansi := known
	ansi.ANSIQuotes = stream.Yes
	var m Masker
	for sql, want := range map[string]string{
		`set password="x"`:                                                      `set password=?`,
		`set password for u@h = "x", "y"`:                                       `set password for u@h = ?, "y"`,
		`create user a identified by "x", "b"@"h"`:                              `create user a identified by ?, "b"@"h"`,
		`alter user "a" identified by "x"`:                                      `alter user "a" identified by ?`,
		`change master to master_password="x", master_host="h"`:                 `change master to master_password=?, master_host="h"`,
		`create server s foreign data wrapper w options (password "x", host h)`: `create server s foreign data wrapper w options (password ?, host h)`,
		`execute immediate 'set password="x"'`:                                  `execute immediate 'set password=?'`,
	} {
		for _, secretsOnly := range []bool{false, true} {
			o := Options{SecretsOnly: secretsOnly}
			got := string(m.Mask(nil, []byte(sql), ansi, o))
			if m.read([]byte(sql), ansi, o); !ordered(m.spans, sql) {
				t.Errorf("%s: %v", sql, m.spans)
				continue
			}
			if form := string(appendForm(nil, []byte(sql), m.spans)); got != want || strings.Contains(form, `"x"`) || strings.Contains(form, "`x`") {
				t.Errorf("%s\n got %s\nwant %s\nform %s", sql, got, want, form)
			}
		}
	}
}

// Whatever a text is, its spans are in order: forms and masked texts are made of them.
func TestSpansAreInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	var m Masker
	kinds := [][]string{openers, closings, closers, soup, templates}
	for range 200_000 {
		sql := ""
		for range 1 + r.IntN(8) {
			of := kinds[r.IntN(len(kinds))]
			sql += of[r.IntN(len(of))]
		}
		mode := randomServer(r).mode(r)
		o := Options{SecretsOnly: r.IntN(3) == 0, Multi: r.IntN(2) == 0, Truncated: r.IntN(3) == 0}
		if m.read([]byte(sql), mode, o); !ordered(m.spans, sql) {
			t.Fatalf("%q in %+v, %+v: %v", sql, mode, o, m.spans)
		}
	}
}
