package captures_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var perlResult = regexp.MustCompile(`(?m)^\s*result\s*=>\s*\[`)

// perlEvents reads the list of hashes behind the first `result =>` of a Perl
// test. An undef is left out; of a call of length or sprintf nothing is kept.
func perlEvents(t *testing.T, text string) []map[string]string {
	t.Helper()
	at := perlResult.FindStringIndex(text)
	if at == nil {
		return nil
	}
	p := perl{rest: text[at[1]:]}
	var list []map[string]string
	for p.skip("{,"); !p.at("]"); p.skip("{,") {
		list = append(list, p.hash())
		if p.err != nil {
			t.Fatalf("read a Perl hash: %v", p.err)
		}
	}
	return list
}

// perl is a cursor over Perl source.
type perl struct {
	rest string
	err  error
}

var perlBlank = regexp.MustCompile(`^(?:\s|#[^\n]*\n)*`)

// skip passes over blanks, comments and the given characters.
func (p *perl) skip(chars string) {
	for {
		p.rest = p.rest[len(perlBlank.FindString(p.rest)):]
		if p.rest == "" || !strings.ContainsRune(chars, rune(p.rest[0])) {
			return
		}
		p.rest = p.rest[1:]
	}
}

func (p *perl) at(s string) bool {
	if p.rest == "" && p.err == nil {
		p.err = fmt.Errorf("the text ends")
	}
	return p.err != nil || strings.HasPrefix(p.rest, s)
}

// hash reads the pairs of a hash whose brace is behind the cursor.
func (p *perl) hash() map[string]string {
	pairs := map[string]string{}
	for p.skip(","); !p.at("}"); p.skip(",") {
		key, rest, found := strings.Cut(p.rest, "=>")
		if !found {
			p.err = fmt.Errorf("no pair at %.40q", p.rest)
			return nil
		}
		p.rest = rest
		p.skip("")
		if value, known := p.value(); known {
			pairs[strings.TrimSpace(key)] = value
		}
	}
	p.skip("}")
	return pairs
}

var perlBare = regexp.MustCompile(`^(?:undef|\d+|(?:length|sprintf)\([^\n]*\))`)

// value reads one value. Known is false for what is no constant.
func (p *perl) value() (value string, known bool) {
	if quote := p.rest[:1]; quote == "'" || quote == `"` {
		end := 1
		for end < len(p.rest) && p.rest[end] != quote[0] {
			if p.rest[end] == '\\' {
				end++
			}
			end++
		}
		value, p.rest = p.rest[1:end], p.rest[end+1:]
		return strings.NewReplacer(`\\`, `\`, `\`+quote, quote).Replace(value), true
	}
	value = perlBare.FindString(p.rest)
	if value == "" {
		p.err = fmt.Errorf("no value at %.40q", p.rest)
	}
	p.rest = p.rest[len(value):]
	return value, value != "undef" && !strings.Contains(value, "(")
}
