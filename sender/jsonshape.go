package sender

import (
	"encoding/json"

	"sqlwitness/stream"
)

// An analysisJSON is the part of a line that is the same for all events of a shape.
type analysisJSON struct {
	tables, written []tableJSON
	traits          string // with its key
}

// A tableJSON is the inside of a JSON string. Where it has no schema, the event's
// is put before it.
type tableJSON struct {
	text  string
	plain bool // it has none
}

func encodeAnalysis(a *analysis) analysisJSON {
	j := analysisJSON{tables: encodeTables(a.tables), written: encodeTables(a.written)}
	if a.traits != 0 {
		names, _ := json.Marshal(a.traits.names(nil)) // of constants
		j.traits = `,"traits":` + string(names)
	}
	return j
}

func encodeTables(tables []tableName) []tableJSON {
	out := make([]tableJSON, 0, len(tables))
	for _, t := range tables {
		text := t.name
		if t.schema != "" {
			text = t.schema + "." + t.name
		}
		quoted, _ := appendJSONString(nil, text)
		out = append(out, tableJSON{string(quoted[1 : len(quoted)-1]), t.schema == ""})
	}
	return out
}

// appendAnalysis appends what is known of the statement's shape.
func (l *Lane) appendAnalysis(dst []byte, e *stream.Event) []byte {
	a := l.facts.shape
	if a == nil {
		return dst
	}
	if a.digest != "" {
		dst = append(append(append(dst, `,"digest":"`...), a.digest...), '"')
	}
	if l.facts.limits.lists {
		dst = l.appendTables(dst, `,"tables":[`, a.json.tables, e)
		dst = l.appendTables(dst, `,"tables_written":[`, a.json.written, e)
	}
	return append(dst, a.json.traits...)
}

// appendTables appends a list of tables, those without a schema with the event's.
func (l *Lane) appendTables(dst []byte, key string, tables []tableJSON, e *stream.Event) []byte {
	if len(tables) == 0 {
		return dst
	}
	dst = append(dst, key...)
	for _, t := range tables {
		if t.plain && e.DBKnown && e.DB != "" {
			dst, _ = appendJSONString(dst, cut(e.DB, l.facts.limits.text))
			dst[len(dst)-1] = '.'
		} else {
			dst = append(dst, '"')
		}
		dst = append(append(dst, t.text...), '"', ',')
	}
	dst[len(dst)-1] = ']'
	return dst
}

// appendSelection appends why the event is here: classes and rules that matched,
// alerts, and the probability that it had.
func (l *Lane) appendSelection(dst []byte) []byte {
	v := &l.selector.verdict
	if v.classes == 0 && v.match == 0 && v.sampler == nil {
		return dst
	}
	if v.classes != 0 || v.match != 0 {
		dst = append(dst, `,"rules":[`...)
		for i, name := range classNames {
			if v.classes&(1<<i) != 0 {
				dst = append(append(append(dst, '"'), name...), '"', ',')
			}
		}
		dst = l.appendRuleNames(dst, v.match)
		dst[len(dst)-1] = ']'
	}
	if v.alerts != 0 {
		dst = l.appendRuleNames(append(dst, `,"alerts":[`...), v.alerts)
		dst[len(dst)-1] = ']'
		dst = append(append(append(dst, `,"severity":"`...), l.severity()...), '"')
	}
	if v.sampler != nil {
		dst = append(append(dst, `,"sample_probability":`...), v.sampler.text...)
	}
	return dst
}

// appendRuleNames appends the names of rules, which need no escapes, each with a
// comma behind it.
func (l *Lane) appendRuleNames(dst []byte, set uint64) []byte {
	for i := range l.selector.rules.rules {
		if set&(1<<i) != 0 {
			dst = append(append(append(dst, '"'), l.selector.rules.rules[i].Name...), '"', ',')
		}
	}
	return dst
}

// severity is the highest of the event's alerts.
func (l *Lane) severity() string {
	top := 0
	for i := range l.selector.rules.rules {
		if l.selector.verdict.alerts&(1<<i) != 0 {
			top = max(top, l.selector.rules.rules[i].severity)
		}
	}
	return severityNames[top]
}

// serverStatus are the names of what is set in a server's status.
func serverStatus(status uint16) []string {
	var names []string
	for _, n := range serverStatusNames {
		if (status^statusAutocommit)&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// flagNames are the names of flags.
func flagNames(flags stream.EventFlags) []string {
	var names []string
	for i, name := range stream.EventFlagNames {
		if flags&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
