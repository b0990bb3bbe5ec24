package sender

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"testing"

	"sqlwitness/sender/gen-go/audit"
)

// FuzzSpoolRecords: any payload behind a sum that is right. It is refused, or its
// records lie one behind the other and end where it ends.
func FuzzSpoolRecords(f *testing.F) {
	fr := newFramer()
	fr.encode(numbered(1, 2, 70_000))
	f.Add(bytes.Clone(fr.raw), 3)
	f.Add([]byte("\x03\x00\x02\x02\x02\x05\x00\x02\x02\x02\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x02\x02\x02\x03abc"), 3)
	f.Fuzz(func(t *testing.T, raw []byte, events int) {
		if events < 0 {
			return
		}
		payload := fr.zw.EncodeAll(raw, nil)
		d := newMemDisk()
		file := &memFile{d: d, f: &memData{b: append(make([]byte, frameHeader), payload...)}}
		c := numbered(7)
		before := len(c.b)
		err := fr.decode(c, file, frame{length: len(payload), events: events, payload: crc32.Checksum(payload, castagnoli)})
		if err != nil && (len(c.recs) != 1 || len(c.b) != before) || err == nil && len(c.recs) != 1+events {
			t.Fatalf("%v: %d records, %d bytes", err, len(c.recs), len(c.b))
		}
		n := 0
		for i := range c.recs {
			n += len(c.line(i))
		}
		if n != len(c.b) {
			t.Fatalf("lines of %d bytes, %d in all", n, len(c.b))
		}
	})
}

// FuzzDecodeThrift: any bytes of a topic, or of an agent: they are refused, or are one
// line of JSON whose Thrift form means the same.
func FuzzDecodeThrift(f *testing.F) {
	f.Add(appendThriftEvent(nil, []byte(`{"v":1,"type":"command","time":"2026-01-01T00:00:00.000000Z","lane":3,"seq":9,"sql":"a\u00e9\u0000","labels":{"a":"b"},"params":[null,"x"],"sample_probability":0.5,"sql_truncated":true,"other":[1,{"a":2}]}`)))
	f.Add([]byte("\x0b\x00\x64\x00\x00\x00\x02{}\x00"))
	f.Add([]byte("\x04\x00\x36\x7f\xf8\x00\x00\x00\x00\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, value []byte) {
		line, err := DecodeThrift(value)
		if err != nil {
			return
		}
		if !json.Valid(line) || line[0] != '{' || bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("not one line of JSON: %q", line)
		}
		again, err := DecodeThrift(appendThriftEvent(nil, line))
		if err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if !json.Valid(again) {
			t.Fatalf("%q became %q", line, again)
		}
		e := audit.NewEvent()
		if thriftRead(value, e) != nil {
			t.Fatal("it was read before")
		}
		var b Batch
		err = errors.Join(b.appendEvent(e), b.appendEvent(e))
		if err == nil && (b.Events() != 2 || !bytes.Equal(b.line(0), b.line(1))) {
			t.Fatalf("a batch of two has %d", b.Events())
		}
	})
}
