package sender

import (
	"bytes"

	"sqlwitness/stream"
)

// A charset says which bytes above 0x7f belong together, as far as it changes
// where a token ends.
type charset uint8

const (
	// charsetOther is every character set without a second byte below 0x80 that
	// is not Unicode. Byte 0xa0 is white space in several of them (latin1).
	charsetOther charset = iota
	// charsetDOS is one of those in which byte 0xff is white space: cp852, cp866
	// and keybcs2 (ctype in sql/share/charsets/*.xml of the server).
	charsetDOS
	charsetUTF8
	charsetGBK // also gb18030, whose four-byte characters hide no delimiter
	charsetBig5
	charsetSJIS // also cp932
	charsets
)

// charsetOf names the character set of a collation id other than 0: the ids of
// SHOW COLLATION. MariaDB adds 1024 for the NOPAD twin of a collation, and gives
// its Unicode (uca1400) collations ids from 2048.
func charsetOf(collation uint16) charset {
	if collation >= 2048 {
		return charsetUTF8
	}
	switch id := collation % 1024; {
	case id == 28, id == 87, 248 <= id && id <= 250:
		return charsetGBK
	case id == 1, id == 84:
		return charsetBig5
	case id == 13, id == 88, id == 95, id == 96:
		return charsetSJIS
	case id == 36, id == 37, id == 40, id == 68, id == 73, id == 81:
		return charsetDOS
	case id == 33, id == 45, id == 46, id == 76, id == 83, 192 <= id && id <= 247,
		255 <= id && id <= 323, 576 <= id && id <= 578, 608 <= id && id <= 610:
		return charsetUTF8
	}
	return charsetOther
}

// pair tells whether lead and trail are one character of a two-byte set.
// strings/ctype-gbk.c, ctype-big5.c, ctype-sjis.c of the server.
func (c charset) pair(lead, trail byte) bool {
	high := 0x80 <= trail && trail <= 0xfe
	low := 0x40 <= trail && trail <= 0x7e
	switch c {
	case charsetGBK:
		return 0x81 <= lead && lead <= 0xfe && (low || high)
	case charsetBig5:
		return 0xa1 <= lead && lead <= 0xf9 && (low || high && trail >= 0xa1)
	case charsetSJIS:
		return (0x81 <= lead && lead <= 0x9f || 0xe0 <= lead && lead <= 0xfc) && (low || high && trail <= 0xfc)
	}
	return false
}

// twoByte tells whether the set has characters whose second byte may be ASCII.
func (c charset) twoByte() bool { return c >= charsetGBK }

// A reading is one way in which the server may have read a text.
type reading struct {
	charset    charset
	backslash  bool // `\` escapes in strings
	ansiQuotes bool // "…" is a name
	// unsure: the character set is not known to be Unicode, so a byte above 0x7f
	// may be white space. Digits behind it may then be a number.
	unsure bool
}

// doubts are the questions that a reading answers and a text makes matter.
type doubts struct {
	backslash, ansiQuotes bool
	charsets              [charsets]bool // to be tried beside the first reading's
	any                   bool
}

// firstReading is the likeliest reading under what the wire told, and the doubts
// that remain about sql.
func firstReading(sql []byte, mode stream.LexMode) (reading, doubts) {
	r := reading{charset: charsetUTF8, backslash: mode.NoBackslashEscapes != stream.Yes, ansiQuotes: mode.ANSIQuotes == stream.Yes}
	var d doubts
	if mode.NoBackslashEscapes == stream.Unknown && bytes.IndexByte(sql, '\\') >= 0 {
		d.backslash, d.any = true, true
	}
	if mode.ANSIQuotes == stream.Unknown && bytes.IndexByte(sql, '"') >= 0 {
		d.ansiQuotes, d.any = true, true
	}
	if mode.Collation != 0 {
		r.charset = charsetOf(mode.Collation)
		r.unsure = r.charset < charsetUTF8
		if mode.CharsetSure {
			return r, d
		}
		// It may have changed where nobody could see. That matters only where a
		// two-byte set may read another text.
		if _, split := highBytes(sql); split {
			for c := range d.charsets {
				d.charsets[c] = charset(c) != r.charset
			}
			d.any = true
		}
		return r, d
	}
	r.unsure = true
	nbsp, split := highBytes(sql)
	dos := bytes.IndexByte(sql, 0xff) >= 0
	d.charsets[charsetOther], d.charsets[charsetDOS] = nbsp, dos
	d.charsets[charsetGBK], d.charsets[charsetBig5], d.charsets[charsetSJIS] = split, split, split
	d.any = d.any || nbsp || dos || split
	return r, d
}

// highBytes tells whether sql holds the byte 0xa0, and whether it holds a byte
// above 0x7f in front of an ASCII byte that delimits and may be the second of a
// character: there a two-byte set may read another text.
func highBytes(sql []byte) (nbsp, split bool) {
	for i := firstHigh(sql); i < len(sql); i++ {
		c := sql[i]
		if c < 0x80 {
			continue
		}
		nbsp = nbsp || c == 0xa0
		if i+1 < len(sql) {
			switch sql[i+1] {
			case '\\', '`', '@':
				split = true
			}
		}
	}
	return nbsp, split
}

// firstHigh is the index of the first byte above 0x7f, or len(b).
func firstHigh(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		c := b[i : i+8 : i+8]
		if (c[0]|c[1]|c[2]|c[3]|c[4]|c[5]|c[6]|c[7])&0x80 != 0 {
			break
		}
	}
	for i < len(b) && b[i] < 0x80 {
		i++
	}
	return i
}

// readings is how many readings others takes, and r.
func (d *doubts) readings(r reading) int {
	n := 1
	d.others(r, func(reading) { n++ })
	return n
}

// first is the index of the first byte of sql that d is about.
func (d *doubts) first(sql []byte) int {
	charset := d.charset()
	for i, c := range sql {
		if c == '\\' && d.backslash || c == '"' && d.ansiQuotes || c >= 0x80 && charset {
			return i
		}
	}
	return len(sql)
}

// charset tells whether d is about the character set.
func (d *doubts) charset() bool {
	for _, doubt := range d.charsets {
		if doubt {
			return true
		}
	}
	return false
}

// others calls f for every reading that d leaves open beside r.
func (d *doubts) others(r reading, f func(reading)) {
	first := r
	for cs := range charsets {
		if cs != first.charset && !d.charsets[cs] {
			continue
		}
		for bits := range 4 {
			flipEscapes, flipQuotes := bits&1 != 0, bits&2 != 0
			if flipEscapes && !d.backslash || flipQuotes && !d.ansiQuotes {
				continue
			}
			r := first
			r.charset = cs
			r.backslash = first.backslash != flipEscapes
			r.ansiQuotes = first.ansiQuotes != flipQuotes
			if r != first {
				f(r)
			}
		}
	}
}
