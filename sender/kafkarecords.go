package sender

import (
	"bytes"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkaRecords are some records of a batch, as kafka.Client.Produce reads them.
// Each is valid until the next.
type kafkaRecords struct {
	batch    *Batch
	index    []int
	key      []byte
	encoding Encoding
	stub     bool

	record     kafka.Record
	keyReader  byteReader
	value      byteReader
	buf        []byte
	headers    [2]kafka.Header
	headerType RecordType
}

// byteReader is a kafka.Bytes that can be set anew.
type byteReader struct{ bytes.Reader }

func (*byteReader) Close() error { return nil }

func newKafkaRecords(b *Batch, index []int, key []byte, encoding Encoding, stub bool) *kafkaRecords {
	return &kafkaRecords{batch: b, index: index, key: key, encoding: encoding, stub: stub}
}

// eventVersion is the value of the header `v`, the version of the schema.
var eventVersion = []byte("1")

// ReadRecord implements kafka.RecordReader.
func (r *kafkaRecords) ReadRecord() (*kafka.Record, error) {
	if len(r.index) == 0 {
		return nil, io.EOF
	}
	i := r.index[0]
	r.index = r.index[1:]
	rec := &r.batch.recs[i]
	if kind := rec.kind; kind != r.headerType || r.headers[0].Key == "" {
		r.headerType = kind
		r.headers = [2]kafka.Header{{Key: "v", Value: eventVersion}, {Key: "type", Value: []byte(kind.String())}}
	}
	r.keyReader.Reset(r.key)
	r.value.Reset(r.encode(bytes.TrimSuffix(r.batch.line(i), []byte{'\n'})))
	r.record = kafka.Record{Time: time.Unix(0, rec.timeNs), Key: &r.keyReader, Value: &r.value, Headers: r.headers[:]}
	return &r.record, nil
}

// encode is the value of a record, valid until the next call.
func (r *kafkaRecords) encode(line []byte) []byte {
	r.buf = r.buf[:0]
	if r.stub {
		r.buf = appendStub(r.buf, line)
		line = r.buf
	}
	if r.encoding == EncodingJSON {
		return line
	}
	from := len(r.buf)
	r.buf = appendThriftEvent(r.buf, line)
	return r.buf[from:]
}
