package sender

import (
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"sqlwitness/stream"
)

// The widths of the columns of a text line. What is wider pushes the rest right.
const (
	textWho     = 24
	textDB      = 10
	textCommand = 14
	textResult  = 12
	textTook    = 9
)

// appendText appends the line of e for a terminal: local time, user@client,
// schema, command, result, duration, masked statement.
func (l *Lane) appendText(dst []byte, e *stream.Event) []byte {
	dst = time.Unix(0, e.TimeNs).AppendFormat(dst, "15:04:05.000 ")
	dst = padded(dst, textWho, func(dst []byte) []byte { return appendWho(dst, e) })
	dst = padded(dst, textDB, func(dst []byte) []byte {
		if e.DBKnown && e.DB != "" {
			return appendVisible(dst, cut(e.DB, maxTextBytes))
		}
		return append(dst, '-')
	})
	switch e.Kind {
	case stream.KindCommand:
		dst = l.appendTextCommand(dst, e)
	case stream.KindSessionStart:
		dst = l.appendTextAlerts(appendTextStart(append(dst, "session start  "...), e))
	case stream.KindLoginFailed:
		dst = strconv.AppendUint(append(dst, "login failed   ERR "...), uint64(e.ErrorCode), 10)
		dst = l.appendTextAlerts(appendVisible(append(dst, "  "...), l.facts.errText))
	case stream.KindSessionEnd:
		dst = appendTextEnd(dst, e)
	}
	for dst[len(dst)-1] == ' ' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '\n')
}

// padded appends a column of at least width characters, and two blanks.
func padded(dst []byte, width int, column func([]byte) []byte) []byte {
	begin := len(dst)
	dst = column(dst)
	for n := utf8.RuneCount(dst[begin:]); n < width; n++ {
		dst = append(dst, ' ')
	}
	return append(dst, ' ', ' ')
}

func appendWho(dst []byte, e *stream.Event) []byte {
	if e.UserSource == stream.UserUnknown {
		dst = append(dst, '?')
	} else {
		dst = appendVisible(dst, cut(e.User, maxTextBytes))
	}
	dst = append(dst, '@')
	if c := e.Session.Client; c.IsValid() {
		return c.AppendTo(dst)
	}
	return append(dst, '?')
}

func (l *Lane) appendTextCommand(dst []byte, e *stream.Event) []byte {
	f := &l.facts
	dst = padded(dst, textCommand, func(dst []byte) []byte {
		if f.lexed && e.Command == stream.ComQuery {
			return l.masker.best.command().appendTo(dst)
		}
		return append(dst, e.Command.String()...)
	})
	dst = padded(dst, textResult, func(dst []byte) []byte { return appendTextResult(dst, e) })
	begin := len(dst)
	if e.Known&stream.KnownDuration != 0 {
		dst = appendTook(dst, e.DurationNs)
	}
	dst = rightAligned(dst, begin, textTook)
	if f.hasSQL {
		dst = appendVisible(append(dst, "  "...), f.sql)
		if f.sqlCut {
			dst = append(dst, "…"...)
		}
	}
	if len(f.errText) > 0 {
		dst = appendVisible(append(dst, "  -- "...), f.errText)
	}
	dst = l.appendTextAlerts(dst)
	if f.lexed && l.masker.best.found > 1 {
		dst = append(strconv.AppendInt(append(dst, "  ["...), int64(l.masker.best.found), 10), " statements]"...)
	}
	return dst
}

// appendTextAlerts appends the names of the event's alerts and their severity.
func (l *Lane) appendTextAlerts(dst []byte) []byte {
	set := l.selector.verdict.alerts
	if set == 0 {
		return dst
	}
	dst = append(append(append(dst, "  !! "...), l.severity()...), ": "...)
	for i := range l.selector.rules.rules {
		if set&(1<<i) != 0 {
			dst = append(append(dst, l.selector.rules.rules[i].Name...), ", "...)
		}
	}
	return dst[:len(dst)-2]
}

// rightAligned moves what stands from begin on to the right end of a column.
func rightAligned(dst []byte, begin, width int) []byte {
	n := utf8.RuneCount(dst[begin:])
	for ; n < width; n++ {
		dst = append(dst, ' ')
		copy(dst[begin+1:], dst[begin:])
		dst[begin] = ' '
	}
	return dst
}

func appendTextResult(dst []byte, e *stream.Event) []byte {
	switch {
	case e.Status == stream.StatusError:
		return strconv.AppendUint(append(dst, "ERR "...), uint64(e.ErrorCode), 10)
	case e.Status != stream.StatusOK:
		return append(dst, e.Status.String()...)
	case e.Known&stream.KnownRows != 0 && e.Rows > 0:
		return append(strconv.AppendUint(dst, e.Rows, 10), " rows"...)
	case e.Known&stream.KnownAffectedRows != 0 && e.AffectedRows > 0:
		return append(strconv.AppendUint(dst, e.AffectedRows, 10), " changed"...)
	}
	return append(dst, "ok"...)
}

// appendTook appends a duration with three digits or so.
func appendTook(dst []byte, ns int64) []byte {
	us := max(ns, 0) / 1000
	switch {
	case us < 1000:
		return append(strconv.AppendInt(dst, us, 10), "µs"...)
	case us < 1000_000:
		return append(strconv.AppendFloat(dst, float64(us)/1e3, 'f', 1, 64), "ms"...)
	}
	return append(strconv.AppendFloat(dst, float64(us)/1e6, 'f', 2, 64), "s"...)
}

func appendTextStart(dst []byte, e *stream.Event) []byte {
	s := e.Session
	if s.Visibility != stream.VisibilityFull {
		dst = append(append(dst, "visibility "...), s.Visibility.String()...)
		dst = append(dst, "  "...)
	}
	for _, part := range [...]string{s.ServerVersion, s.AuthPlugin, s.TLSVersion, s.TLSCipher, s.Compression, s.Program} {
		if part != "" {
			dst = append(appendVisible(dst, cut(part, maxTextBytes)), "  "...)
		}
	}
	if e.Flags&stream.FlagMidStream != 0 {
		dst = append(dst, "(joined mid-stream)"...)
	}
	return dst
}

func appendTextEnd(dst []byte, e *stream.Event) []byte {
	dst = append(append(dst, "session end    "...), e.EndReason.String()...)
	dst = append(strconv.AppendUint(append(dst, "  "...), e.Commands, 10), " commands, "...)
	return append(strconv.AppendUint(dst, e.Errors, 10), " errors"...)
}

// appendVisible appends s on one line, with nothing in it that a terminal obeys or
// that hides text: control characters, format characters (bidirectional overrides,
// zero width) and bytes that are not UTF-8 are written as escapes.
func appendVisible[T string | []byte](dst []byte, s T) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case ' ' <= c && c < 0x7f:
			dst = append(dst, c)
			i++
			continue
		case c == '\n':
			dst = append(dst, '\\', 'n')
			i++
			continue
		case c == '\t':
			dst = append(dst, '\\', 't')
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		switch {
		case c < 0x80, r == utf8.RuneError && n == 1:
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		case unicode.IsPrint(r):
			dst = append(dst, s[i:i+n]...)
		default:
			dst = append(dst, '\\', 'u', '{')
			dst = append(strconv.AppendInt(dst, int64(r), 16), '}')
		}
		i += n
	}
	return dst
}
