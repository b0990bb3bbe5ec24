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
	stub     bool // without sql and params
	untimed  bool // without a time: a broker refuses one that is an hour ahead of its clock, by default

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

func newKafkaRecords(b *Batch, index []int, key []byte, encoding Encoding) *kafkaRecords {
	return &kafkaRecords{batch: b, index: index, key: key, encoding: encoding}
}

// noTime is the time of a record that has none.
// https://kafka.apache.org/41/javadoc/org/apache/kafka/common/record/RecordBatch.html#NO_TIMESTAMP
var noTime = time.UnixMilli(-1)

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
	at := time.Unix(0, rec.timeNs)
	if r.untimed {
		at = noTime
	}
	r.record = kafka.Record{Time: at, Key: &r.keyReader, Value: &r.value, Headers: r.headers[:]}
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
