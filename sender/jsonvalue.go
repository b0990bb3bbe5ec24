package sender

import (
	"math"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"
)

// jsonSafe are the bytes that stand for themselves in a JSON string.
var jsonSafe = func() (t [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// appendJSONString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, and valid says whether there were none. Control characters are escaped,
// the C1 set and DEL too: some terminals obey them.
func appendJSONString[T string | []byte](dst []byte, s T) (out []byte, valid bool) {
	dst, valid = append(dst, '"'), true
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if jsonSafe[c] {
			i++
			continue
		}
		if c < 0x80 {
			dst = append(dst, s[from:i]...)
			dst = appendJSONEscape(dst, c)
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[from:i]...), "\ufffd"...)
			valid = false
			from = i + 1
		case r < 0xa0:
			dst = append(append(dst, s[from:i]...), '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
			from = i + n
		}
		i += n
	}
	return append(append(dst, s[from:]...), '"'), valid
}

// appendJSONEscape appends an ASCII character that needs an escape.
func appendJSONEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// cut shortens s to at most limit bytes, on a rune border.
func cut[T string | []byte](s T, limit int) T {
	if len(s) <= limit {
		return s
	}
	return trimPartial(s[:limit])
}

// trimPartial removes the beginning of a rune from the end of s.
func trimPartial[T string | []byte](s T) T {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if s[i] < 0x80 {
			break
		}
		if s[i] >= 0xc0 {
			if !utf8.FullRuneInString(string(s[i:])) {
				return s[:i]
			}
			break
		}
	}
	return s
}

// appendTextField appends `,"key":"s"`, s cut to limit bytes. key holds the
// comma, the quotes and the colon.
func appendTextField[T string | []byte](dst []byte, key string, s T, limit int) []byte {
	dst, _ = appendJSONString(append(dst, key...), cut(s, limit))
	return dst
}

// appendUintField appends `,"key":n`; what does not fit in 63 bits is clamped.
func appendUintField(dst []byte, key string, n uint64) []byte {
	return strconv.AppendUint(append(dst, key...), min(n, math.MaxInt64), 10)
}

// appendMicrosField appends nanoseconds as microseconds, at least 0.
func appendMicrosField(dst []byte, key string, ns int64) []byte {
	return strconv.AppendUint(append(dst, key...), uint64(max(ns, 0))/1000, 10)
}

// appendAddrFields appends an address and a port, unless the address is invalid.
func appendAddrFields(dst []byte, ipKey, portKey string, a netip.AddrPort) []byte {
	if !a.IsValid() {
		return dst
	}
	dst = append(a.Addr().AppendTo(append(append(dst, ipKey...), '"')), '"')
	return appendUintField(dst, portKey, uint64(a.Port()))
}

// A clock formats times; it keeps the second it formatted last.
type clock struct {
	second int64
	text   [len("2006-01-02T15:04:05")]byte
	set    bool
}

// appendTime appends ns, nanoseconds since the Unix epoch, in RFC 3339, UTC, with
// microseconds. An int64 of nanoseconds ends in the year 2262.
func (c *clock) appendTime(dst []byte, ns int64) []byte {
	second, rest := ns/1e9, ns%1e9
	if rest < 0 {
		second, rest = second-1, rest+1e9
	}
	if !c.set || second != c.second {
		c.second, c.set = second, true
		formatSecond(&c.text, second)
	}
	dst = append(append(dst, c.text[:]...), '.')
	us := rest / 1000
	for div := int64(100000); div > 0; div /= 10 {
		dst = append(dst, byte('0'+us/div%10))
	}
	return append(dst, 'Z')
}

func formatSecond(dst *[len("2006-01-02T15:04:05")]byte, second int64) {
	time.Unix(second, 0).UTC().AppendFormat(dst[:0], "2006-01-02T15:04:05")
}
