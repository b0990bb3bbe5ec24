package stream

import (
	"encoding/binary"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// A Transcoder turns text in a connection's character set into UTF-8. The zero
// value is ready; it belongs to one goroutine.
type Transcoder struct {
	decoders map[encoding.Encoding]*encoding.Decoder
	out      []byte
}

// UTF8 returns text, which is in the character set of a collation, as UTF-8. It
// returns text itself where there is nothing to do, also where the set is not
// known; else the result is valid until the next call. Bytes that are no text in
// the set become U+FFFD.
func (t *Transcoder) UTF8(text []byte, collation uint16) []byte {
	if collation == 0 || isASCII(text) {
		return text
	}
	enc := encodingOf(collation)
	if enc == nil {
		return text
	}
	d := t.decoders[enc]
	if d == nil {
		if t.decoders == nil {
			t.decoders = make(map[encoding.Encoding]*encoding.Decoder)
		}
		d = enc.NewDecoder()
		t.decoders[enc] = d
	}
	d.Reset()
	if need := utf8.UTFMax * (len(text) + 1); cap(t.out) < need {
		t.out = make([]byte, need)
	}
	n, _, err := d.Transform(t.out[:cap(t.out)], text, true)
	if err != nil {
		return text
	}
	return t.out[:n]
}

// text is UTF8 for the names of a login.
func (e *Env) text(b []byte, collation uint16) string { return e.name(e.transcoder.UTF8(b, collation)) }

func isASCII(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b)&0x8080808080808080 != 0 {
			return false
		}
		b = b[8:]
	}
	for _, ch := range b {
		if ch >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// encodingOf returns the encoding of a collation's character set, nil for UTF-8,
// ASCII, binary, and the few sets that no library knows. The ids are those of
// SHOW COLLATION; MariaDB adds 1024 for the NOPAD twin of a collation. MySQL's
// latin1 is Windows-1252.
func encodingOf(collation uint16) encoding.Encoding {
	if collation >= 2048 { // MariaDB's uca1400, all of Unicode
		return nil
	}
	switch collation & 1023 {
	case 1, 84:
		return traditionalchinese.Big5
	case 2, 9, 21, 27, 77:
		return charmap.ISO8859_2
	case 4, 80:
		return charmap.CodePage850
	case 7, 74:
		return charmap.KOI8R
	case 5, 8, 15, 31, 47, 48, 49, 94:
		return charmap.Windows1252
	case 12, 91, 97, 98:
		return japanese.EUCJP
	case 13, 88, 95, 96:
		return japanese.ShiftJIS
	case 16, 71:
		return charmap.ISO8859_8
	case 18, 89:
		return charmap.Windows874
	case 19, 85:
		return korean.EUCKR
	case 22, 75:
		return charmap.KOI8U
	case 24, 86, 28, 87:
		return simplifiedchinese.GBK
	case 25, 70:
		return charmap.ISO8859_7
	case 26, 34, 44, 66, 99:
		return charmap.Windows1250
	case 30, 78:
		return charmap.ISO8859_9
	case 35, 54, 55, 90, 101, 128, 159:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case 36, 68:
		return charmap.CodePage866
	case 39, 53:
		return charmap.Macintosh
	case 40, 81:
		return charmap.CodePage852
	case 20, 41, 42, 79:
		return charmap.ISO8859_13
	case 14, 23, 50, 51, 52:
		return charmap.Windows1251
	case 56, 62:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case 57, 67:
		return charmap.Windows1256
	case 29, 58, 59:
		return charmap.Windows1257
	case 60, 61, 160:
		return utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)
	case 248, 249, 250:
		return simplifiedchinese.GB18030
	}
	return nil
}
