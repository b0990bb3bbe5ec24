package sender

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"sqlwitness/stream"
)

// A corpusLine is a statement of testdata/corpus.txt.
type corpusLine struct {
	sql  string
	mode stream.LexMode // the server's, in utf8mb4
}

func readCorpus(t *testing.T) (lines []corpusLine) {
	t.Helper()
	text, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		c := corpusLine{sql: line, mode: known}
		if rest, ok := strings.CutPrefix(line, "[ansi] "); ok {
			c.sql, c.mode.ANSIQuotes = rest, stream.Yes
		} else if rest, ok := strings.CutPrefix(line, "[nobs] "); ok {
			c.sql, c.mode.NoBackslashEscapes = rest, stream.Yes
		} else if line[0] == '`' {
			if c.sql, err = strconv.Unquote(strings.Trim(line, "`")); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		lines = append(lines, c)
	}
	if len(lines) < 300 {
		t.Fatalf("%d statements", len(lines))
	}
	return lines
}

// corpusValues are the words and numbers of the corpus that are values.
var corpusValues = regexp.MustCompile(`(?i)zq\w*|7190\w*`)

// The values of the corpus are masked in every character set that can write the
// statement, whether or not the server's mode is known, and are in no form.
func TestCorpusIsMasked(t *testing.T) {
	sets := map[uint16]encoding.Encoding{45: encoding.Nop, 8: charmap.Windows1252, 28: simplifiedchinese.GBK, 248: simplifiedchinese.GB18030, 1: traditionalchinese.Big5, 95: japanese.ShiftJIS}
	var m Masker
	checked, values := 0, 0
	for _, c := range readCorpus(t) {
		for collation, set := range sets {
			text, err := set.NewEncoder().Bytes([]byte(c.sql))
			if err != nil {
				continue // it has no such characters
			}
			for bits := range 8 {
				if collation != 45 && bits != 0 && bits != 1 && bits != 7 {
					continue
				}
				mode := c.mode
				mode.Collation = collation
				if bits&1 != 0 {
					mode.Collation = 0
				}
				if bits&2 != 0 {
					mode.ANSIQuotes = stream.Unknown
				}
				if bits&4 != 0 {
					mode.NoBackslashEscapes = stream.Unknown
				}
				out := m.Mask(nil, text, mode, Options{Multi: true})
				form := appendForm(nil, text, m.spans)
				for _, got := range [][]byte{out, form} {
					if leak := corpusValues.Find(got); leak != nil {
						t.Fatalf("collation %d told as %+v\n%q\nshows %q in\n%q", collation, mode, text, leak, got)
					}
				}
				checked++
			}
		}
		values += len(corpusValues.FindAllString(c.sql, -1))
	}
	if checked < 5000 || values < 450 {
		t.Errorf("%d readings of %d values; the corpus or the test is broken", checked, values)
	}
}

// What the corpus becomes: masked text, commands, accounts, tables, traits.
func TestCorpusGolden(t *testing.T) {
	var m Masker
	var a analyst
	var got []string
	for _, c := range readCorpus(t) {
		text := []byte(c.sql)
		out := m.Mask(nil, text, c.mode, Options{Multi: true})
		res := a.study(1, appendForm(nil, text, m.spans), m.best.found)
		guessed := ""
		if res.guessed {
			guessed = "guessed "
		}
		got = append(got, fmt.Sprintf("%s\n\t%s | %s%s | %s\n", bytes.ReplaceAll(out, []byte("\n"), []byte(`\n`)), describe(&m, c.sql), guessed, res.String(), strings.Join(res.traits.names(nil), " ")))
	}
	golden(t, "corpus.masked.txt", got)
}

// With masking off only secrets are masked.
func TestCorpusSecrets(t *testing.T) {
	var m Masker
	kept := 0
	for _, c := range readCorpus(t) {
		out := m.Mask(nil, []byte(c.sql), c.mode, Options{SecretsOnly: true, Multi: true})
		if string(out) == c.sql {
			kept++
		}
		for _, secret := range []string{"zqpw", "zqS3cret", "zqsecret", "zqHASH", "zqnew'", "zqold", "zqmine", "zqroot'", "zqpass"} {
			if strings.Contains(strings.ToLower(c.sql), "identified") || strings.Contains(strings.ToLower(c.sql), "password") && !strings.HasPrefix(c.sql, "SELECT") {
				if bytes.Contains(out, []byte(secret)) {
					t.Errorf("%q\nshows %s in\n%q", c.sql, secret, out)
				}
			}
		}
	}
	if kept < 220 {
		t.Errorf("only %d statements are as they were", kept)
	}
}
