package sender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"

	"sqlwitness/sender/gen-go/audit"
)

// DecodeThrift is the JSON form of a struct Event of audit.thrift in the binary
// protocol, as a Kafka topic with EncodingThrift holds it.
func DecodeThrift(value []byte) ([]byte, error) {
	conf := &thrift.TConfiguration{MaxMessageSize: maxThriftFrame, MaxContainerSize: maxThriftEvents}
	e := audit.NewEvent()
	if err := e.Read(context.Background(), thrift.NewTBinaryProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(value)}, conf)); err != nil {
		return nil, fmt.Errorf("decode thrift event: %w", err)
	}
	return eventLine(e)
}

// lineOf hides params and extra of the generated struct, whose JSON form differs.
type lineOf struct {
	*audit.Event
	Params []*string `json:"params,omitempty"`
	Extra  *struct{} `json:"extra,omitempty"`
}

// eventLine is an event as JSON, on one line without a newline. The generated
// struct's tags are the names of the JSON form.
func eventLine(e *audit.Event) ([]byte, error) {
	l := lineOf{Event: e}
	for _, p := range e.Params {
		if p == nil {
			p = audit.NewParam()
		}
		l.Params = append(l.Params, p.Value)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	line := bytes.TrimSuffix(out.Bytes(), []byte{'\n'})
	if e.Extra == nil {
		return line, nil
	}
	var extra bytes.Buffer
	if err := json.Compact(&extra, []byte(e.GetExtra())); err != nil || extra.Len() < 2 || extra.Bytes()[0] != '{' {
		return nil, fmt.Errorf("field extra is no object: %.80q", e.GetExtra())
	}
	return joinObjects(line, extra.Bytes()), nil
}

// joinObjects is an object with the members of both.
func joinObjects(a, b []byte) []byte {
	if len(b) == 2 {
		return a
	}
	a = a[:len(a)-1]
	if len(a) > 1 {
		a = append(a, ',')
	}
	return append(a, b[1:]...)
}
