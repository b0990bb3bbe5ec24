package sender

import (
	"bytes"
	"strings"
)

// An errorTemplate is a message of the server as it prints it, with
//
//	%v a value: masked. It goes as far as the text allows, so that a value which
//	   itself looks like the rest of the message stays inside
//	%n a name: kept
//	%c a name that is kept only if the masked statement shows it too, or there is
//	   none: it may come from a string, under ANSI_QUOTES or by EXECUTE IMMEDIATE
//	%w words of letters, blanks and underscores: kept
//	%d a number: kept
//
// share/errmsg-utf8.txt (MySQL: share/messages_to_clients.txt).
type errorTemplate struct {
	code    uint16
	message string
}

var errorMessages = [...]errorTemplate{
	{1005, "Can't create table %n (errno: %d%n)"},
	{1007, "Can't create database '%c'; database exists"},
	{1008, "Can't drop database '%c'; database doesn't exist"},
	{1044, "Access denied for user '%n'@'%n' to database '%n'"},
	{1045, "Access denied for user '%n'@'%n' (using password: %w)"},
	{1046, "No database selected"},
	{1048, "Column '%n' cannot be null"},
	{1049, "Unknown database '%c'"},
	{1050, "Table '%c' already exists"},
	{1051, "Unknown table '%c'"},
	{1052, "Column '%n' in %n is ambiguous"},
	{1054, "Unknown column '%c' in '%w'"},
	{1060, "Duplicate column name '%c'"},
	{1061, "Duplicate key name '%c'"},
	{1062, "Duplicate entry '%v' for key '%n'"},
	{1064, "You have an error in your SQL syntax; check the manual that corresponds to your %w for the right syntax to use near '%v' at line %d"},
	{1065, "Query was empty"},
	{1091, "Can't DROP '%c'; check that column/key exists"},
	{1091, "Can't DROP %c; check that it exists"},
	{1109, "Unknown table '%c' in %n"},
	{1114, "The table '%n' is full"},
	{1133, "Can't find any matching row in the user table"},
	{1136, "Column count doesn't match value count at row %d"},
	{1141, "There is no such grant defined for user '%n' on host '%n'"},
	{1142, "%n command denied to user '%n'@'%n' for table %n"},
	{1143, "%n command denied to user '%n'@'%n' for column '%n' in table '%n'"},
	{1146, "Table '%c' doesn't exist"},
	{1193, "Unknown system variable '%c'"},
	{1203, "User %n already has more than 'max_user_connections' active connections"},
	{1205, "Lock wait timeout exceeded; try restarting transaction"},
	{1213, "Deadlock found when trying to get lock; try restarting transaction"},
	{1226, "User '%n' has exceeded the '%n' resource (current value: %d)"},
	{1227, "Access denied; you need (at least one of) the %n privilege(s) for this operation"},
	{1264, "Out of range value for column '%n' at row %d"},
	{1265, "Data truncated for column '%n' at row %d"},
	{1292, "Truncated incorrect %w value: '%v'"},
	{1292, "Incorrect %w value: '%v' for column %n at row %d"},
	{1292, "Incorrect %w value: '%v'"},
	{1305, "%w %c does not exist"},
	{1317, "Query execution was interrupted"},
	{1364, "Field '%n' doesn't have a default value"},
	{1366, "Incorrect %w value: '%v' for column %n at row %d"},
	{1370, "%n command denied to user '%n'@'%n' for routine '%n'"},
	{1396, "Operation %w failed for %n"},
	{1406, "Data too long for column '%n' at row %d"},
	{1411, "Incorrect %w value: '%v' for function %w"},
	{1451, "Cannot delete or update a parent row: a foreign key constraint fails (%n)"},
	{1452, "Cannot add or update a child row: a foreign key constraint fails (%n)"},
	{1698, "Access denied for user '%n'@'%n'"},
	{1969, "Query execution was interrupted (max_statement_time exceeded)"},
	{3024, "Query execution was interrupted, maximum statement execution time exceeded"},
	{3819, "Check constraint '%n' is violated."},
	{4025, "CONSTRAINT %n failed for %n"},
}

// A templatePart is a literal and the kind of the field behind it, 0 at the end of
// the message.
type templatePart struct {
	literal []byte
	kind    byte
}

// errorTemplates are the parts of errorMessages. It never changes.
var errorTemplates = func() (t [len(errorMessages)][]templatePart) {
	for i, m := range errorMessages {
		for rest, more := m.message, true; more; {
			var literal string
			literal, rest, more = strings.Cut(rest, "%")
			part := templatePart{literal: []byte(literal)}
			if more {
				part.kind, rest = rest[0], rest[1:]
			}
			t[i] = append(t[i], part)
		}
	}
	return t
}()

// appendErrorText appends an error text with its values masked. state is the
// SQL state, sql the masked statement. A text that matches no template of its
// code loses everything from the first to the last quote, and every number; a text
// whose code has no template, and what SIGNAL raised, is all value.
func appendErrorText(dst []byte, code uint16, state [5]byte, text, sql []byte) []byte {
	if 1643 <= code && code <= 1645 || state[0] == '4' && state[1] == '5' || signals(sql) {
		return append(dst, '?')
	}
	known := false
	for i := range errorMessages {
		if errorMessages[i].code == code {
			known = true
			if out, ok := appendTemplate(dst, errorTemplates[i], text, sql); ok {
				return out
			}
		}
	}
	if !known {
		return append(dst, '?')
	}
	return appendUnknownError(dst, text)
}

// signals tells whether a statement raises errors of its own, with any code and
// any text.
func signals(sql []byte) bool {
	for i := 0; i+len("signal") <= len(sql); i++ {
		if sql[i]|0x20 == 's' && bytes.EqualFold(sql[i:i+len("signal")], []byte("signal")) {
			return true
		}
	}
	return false
}

// shows tells whether the masked statement has a name, in any case.
func shows(sql, name []byte) bool {
	return len(name) > 0 && bytes.Contains(bytes.ToLower(sql), bytes.ToLower(name))
}

// appendTemplate appends text if it has the form of the message.
func appendTemplate(dst []byte, parts []templatePart, text, sql []byte) ([]byte, bool) {
	for i, p := range parts {
		if !bytes.HasPrefix(text, p.literal) {
			return dst, false
		}
		dst, text = append(dst, p.literal...), text[len(p.literal):]
		if p.kind == 0 {
			return dst, len(text) == 0
		}
		end := fieldEnd(text, p.kind, parts[i+1])
		if end < 0 {
			return dst, false
		}
		if p.kind == 'v' || p.kind == 'c' && len(sql) > 0 && !shows(sql, lastPart(text[:end])) {
			dst = append(dst, '?')
		} else {
			dst = append(dst, text[:end]...)
		}
		text = text[end:]
	}
	return dst, false
}

// fieldEnd is where the field of the given kind at the start of text ends: before
// the literal of next.
func fieldEnd(text []byte, kind byte, next templatePart) int {
	end := 0
	switch {
	case kind == 'd':
		for end < len(text) && isDigit(text[end]) {
			end++
		}
		return end
	case next.kind == 0: // next ends the message
		if !bytes.HasSuffix(text, next.literal) {
			return -1
		}
		end = len(text) - len(next.literal)
	case kind == 'v':
		end = bytes.LastIndex(text, next.literal)
	default:
		end = bytes.Index(text, next.literal)
	}
	if kind == 'w' && end >= 0 {
		for _, c := range text[:end] {
			if c != ' ' && c != '_' && (lower(c) < 'a' || lower(c) > 'z') {
				return -1
			}
		}
	}
	return end
}

// lastPart is what stands behind the last '.' of a qualified name.
func lastPart(name []byte) []byte { return name[bytes.LastIndexByte(name, '.')+1:] }

// appendUnknownError masks from the first to the last quote, to the end where
// the quotes do not pair, and every run of digits.
func appendUnknownError(dst, text []byte) []byte {
	first, last, quotes := len(text), -1, 0
	for i, c := range text {
		if c == '\'' || c == '"' {
			first, last = min(first, i), i
			quotes++
		}
	}
	if quotes%2 != 0 {
		last = len(text) - 1
	}
	for i := 0; i < len(text); i++ {
		switch {
		case i == first:
			dst = append(dst, '?')
			i = last
		case isDigit(text[i]):
			if i == 0 || !isDigit(text[i-1]) {
				dst = append(dst, '?')
			}
		default:
			dst = append(dst, text[i])
		}
	}
	return dst
}
