package sender

import (
	"encoding/binary"
	"math"
	"strconv"
)

// The type codes of Thrift's binary protocol.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-binary-protocol.md
const (
	thriftStop   = 0
	thriftBool   = 2
	thriftDouble = 4
	thriftI32    = 8
	thriftI64    = 10
	thriftString = 11
	thriftStruct = 12
	thriftMap    = 13
	thriftList   = 15

	// thriftParams is our own name for list<Param>.
	thriftParams = 0xff
)

type thriftField struct {
	id   uint16
	code byte
}

const thriftExtra = 100

// thriftFields are the fields of struct Event in audit.thrift. A test compares
// them with the generated code.
var thriftFields = map[string]thriftField{
	"v": {1, thriftI32}, "type": {2, thriftString}, "time": {3, thriftString},
	"agent": {4, thriftString}, "boot": {5, thriftString}, "lane": {6, thriftI32}, "seq": {7, thriftI64},
	"host": {8, thriftString}, "labels": {9, thriftMap},
	"session": {10, thriftString}, "session_seq": {11, thriftI64},
	"server_ip": {12, thriftString}, "server_port": {13, thriftI32},
	"client_ip": {14, thriftString}, "client_port": {15, thriftI32},
	"proxy_ip": {16, thriftString}, "proxy_port": {17, thriftI32}, "connection_id": {18, thriftI64},
	"user": {19, thriftString}, "user_source": {20, thriftString}, "program": {21, thriftString}, "db": {22, thriftString},
	"command": {23, thriftString}, "sql_command": {24, thriftString}, "sql_commands": {25, thriftList},
	"sql": {26, thriftString}, "sql_bytes": {27, thriftI64}, "sql_truncated": {28, thriftBool}, "digest": {29, thriftString},
	"statements": {30, thriftI64}, "results": {31, thriftI64}, "stmt_id": {32, thriftI64},
	"tables": {33, thriftList}, "tables_written": {34, thriftList}, "accounts": {35, thriftList}, "traits": {36, thriftList},
	"params": {37, thriftParams},
	"status": {38, thriftString}, "error_code": {39, thriftI32}, "sql_state": {40, thriftString},
	"error": {41, thriftString}, "error_class": {42, thriftString},
	"rows": {43, thriftI64}, "affected_rows": {44, thriftI64}, "warnings": {45, thriftI64},
	"request_bytes": {46, thriftI64}, "response_bytes": {47, thriftI64},
	"first_byte_us": {48, thriftI64}, "duration_us": {49, thriftI64},
	"server_status": {50, thriftList}, "flags": {51, thriftList}, "rules": {52, thriftList}, "alerts": {53, thriftList},
	"sample_probability": {54, thriftDouble}, "visibility": {55, thriftString},
	"tls_version": {56, thriftString}, "tls_cipher": {57, thriftString}, "auth_plugin": {58, thriftString},
	"compression": {59, thriftString}, "server_version": {60, thriftString}, "client_attrs": {61, thriftMap},
	"commands": {62, thriftI64}, "errors": {63, thriftI64}, "end_reason": {64, thriftString}, "severity": {65, thriftString},
	"extra": {thriftExtra, thriftString},
}

// thriftIndex is thriftFields for lookups: open addressing by thriftSlot, whose
// factors let no two of the names collide. A map costs four times as much.
var thriftIndex = func() (index [thriftSlots]namedField) {
	for name, f := range thriftFields {
		i := thriftSlot([]byte(name))
		for index[i%thriftSlots].name != "" {
			i++
		}
		index[i%thriftSlots] = namedField{name, f}
	}
	return index
}()

type namedField struct {
	name string
	thriftField
}

const thriftSlots = 512 // far more than there are names

// thriftSlot hashes the length of a name and three of its bytes.
func thriftSlot(name []byte) uint {
	n := len(name)
	if n == 0 {
		return 0
	}
	return (uint(n) + uint(name[0])*21 + uint(name[n/2])*5 + uint(name[n-1])*29) % thriftSlots
}

func thriftFieldOf(name []byte) (thriftField, bool) {
	for i := thriftSlot(name); ; i++ {
		f := &thriftIndex[i%thriftSlots]
		if f.name == string(name) {
			return f.thriftField, f.name != ""
		}
		if f.name == "" {
			return thriftField{}, false
		}
	}
}

// appendThriftEvent appends the struct Event of a line of JSON. It does not
// allocate. Members that have no field, or a value that their field cannot hold,
// become part of the field extra.
//
// Note: the events are encoded from their JSON, not a second time from the
// source, so that capture pays for one encoding only and a new field cannot be
// forgotten here.
func appendThriftEvent(dst, line []byte) []byte {
	m := walk(line)
	extra := false
	for key, value, ok := m.member(); ok; key, value, ok = m.member() {
		n, fits := len(dst), false
		if dst, fits = appendThriftMember(dst, key, value); !fits {
			dst, extra = dst[:n], true
		}
	}
	if extra {
		dst = appendThriftExtra(dst, line)
	}
	return append(dst, thriftStop)
}

func appendThriftExtra(dst, line []byte) []byte {
	dst = binary.BigEndian.AppendUint16(append(dst, thriftString), thriftExtra)
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	sep := byte('{')
	m := walk(line)
	for key, value, ok := m.member(); ok; key, value, ok = m.member() {
		n, fits := len(dst), false
		dst, fits = appendThriftMember(dst, key, value)
		dst = dst[:n]
		if fits {
			continue
		}
		dst = append(append(append(dst, sep, '"'), key...), '"', ':')
		dst = append(dst, value...)
		sep = ','
	}
	return thriftLength(append(dst, '}'), start)
}

// thriftLength sets the length at start to that of what follows it.
func thriftLength(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// appendThriftMember appends one field; fits is false if there is none for it.
func appendThriftMember(dst, key, value []byte) (out []byte, fits bool) {
	f, known := thriftFieldOf(key)
	if !known || f.id == thriftExtra {
		return dst, false
	}
	code := f.code
	if code == thriftParams {
		code = thriftList
	}
	out = binary.BigEndian.AppendUint16(append(dst, code), f.id)
	switch f.code {
	case thriftString:
		return appendThriftString(out, value)
	case thriftI32:
		n, ok := parseInt(value)
		return binary.BigEndian.AppendUint32(out, uint32(n)), ok && n == int64(int32(n))
	case thriftI64:
		n, ok := parseInt(value)
		return binary.BigEndian.AppendUint64(out, uint64(n)), ok
	case thriftBool:
		return append(out, 1), string(value) == "true"
	case thriftDouble:
		x, err := strconv.ParseFloat(string(value), 64)
		return binary.BigEndian.AppendUint64(out, math.Float64bits(x)), err == nil
	case thriftMap:
		return appendThriftMap(out, value)
	}
	return appendThriftList(out, value, f.code == thriftParams)
}

func parseInt(b []byte) (n int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' || n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

func appendThriftString(dst, value []byte) ([]byte, bool) {
	if len(value) < 2 || value[0] != '"' {
		return dst, false
	}
	start := len(dst)
	return thriftLength(appendUnescaped(append(dst, 0, 0, 0, 0), value[1:len(value)-1]), start), true
}

// appendThriftMap appends an object of strings.
func appendThriftMap(dst, value []byte) ([]byte, bool) {
	if len(value) == 0 || value[0] != '{' {
		return dst, false
	}
	dst = append(dst, thriftString, thriftString)
	start, n := len(dst), uint32(0)
	dst = append(dst, 0, 0, 0, 0)
	m := walk(value)
	for key, v, ok := m.member(); ok; key, v, ok = m.member() {
		at := len(dst)
		dst = thriftLength(appendUnescaped(append(dst, 0, 0, 0, 0), key), at)
		if dst, ok = appendThriftString(dst, v); !ok {
			return dst, false
		}
		n++
	}
	binary.BigEndian.PutUint32(dst[start:], n)
	return dst, !m.bad
}

// appendThriftList appends an array of strings; params, one of struct Param.
func appendThriftList(dst, value []byte, params bool) ([]byte, bool) {
	if len(value) == 0 || value[0] != '[' {
		return dst, false
	}
	if params {
		dst = append(dst, thriftStruct)
	} else {
		dst = append(dst, thriftString)
	}
	start, n := len(dst), uint32(0)
	dst = append(dst, 0, 0, 0, 0)
	m := walk(value)
	for v, ok := m.value(); ok; v, ok = m.value() {
		switch {
		case !params:
			dst, ok = appendThriftString(dst, v)
		case string(v) != "null":
			dst, ok = appendThriftString(append(dst, thriftString, 0, 1), v)
		}
		if !ok {
			return dst, false
		}
		if params {
			dst = append(dst, thriftStop)
		}
		n++
	}
	binary.BigEndian.PutUint32(dst[start:], n)
	return dst, !m.bad
}
