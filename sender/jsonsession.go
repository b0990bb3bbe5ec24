package sender

import (
	"strconv"

	"sqlwitness/stream"
)

// appendSession appends the constant part of a session's events. It is encoded
// once and kept in the session, which empties it when something changes.
func (l *Lane) appendSession(dst []byte, s *stream.Session) []byte {
	if l.facts.limits.text < maxTextBytes {
		return l.encodeSession(dst, s)
	}
	if len(s.Encoded) == 0 {
		s.Encoded = l.encodeSession(s.Encoded, s)
	}
	return append(dst, s.Encoded...)
}

func (l *Lane) encodeSession(dst []byte, s *stream.Session) []byte {
	lim := l.facts.limits
	dst = append(append(append(dst, `,"session":"`...), l.prefix...), strconv.FormatUint(s.ID, 36)...)
	dst = append(dst, '"')
	dst = appendAddrFields(dst, `,"client_ip":`, `,"client_port":`, s.Client)
	dst = appendAddrFields(dst, `,"server_ip":`, `,"server_port":`, s.Server)
	dst = appendAddrFields(dst, `,"proxy_ip":`, `,"proxy_port":`, s.Proxy)
	if s.ConnectionID != 0 {
		dst = appendUintField(dst, `,"connection_id":`, s.ConnectionID)
	}
	if s.Program != "" {
		dst = appendTextField(dst, `,"program":`, s.Program, lim.text)
	}
	cfg := &l.s.cfg
	dst = appendTextField(dst, `,"agent":`, cfg.Agent, lim.text)
	dst = appendTextField(dst, `,"boot":`, cfg.Boot, lim.text)
	dst = appendUintField(dst, `,"lane":`, uint64(l.index))
	if cfg.Host != "" {
		dst = appendTextField(dst, `,"host":`, cfg.Host, lim.text)
	}
	if len(cfg.Labels) == 0 || !lim.lists {
		return dst
	}
	sep := `,"labels":{`
	for _, label := range cfg.Labels {
		dst, _ = appendJSONString(append(dst, sep...), cut(label.Key, lim.text))
		dst = appendTextField(dst, ":", label.Value, lim.text)
		sep = ","
	}
	return append(dst, '}')
}

// appendSessionStart appends what only the start of a session says.
func (l *Lane) appendSessionStart(dst []byte, e *stream.Event) []byte {
	s := e.Session
	dst = append(append(append(dst, `,"visibility":"`...), s.Visibility.String()...), '"')
	for _, f := range [...]struct{ key, value string }{
		{`,"tls_version":`, s.TLSVersion}, {`,"tls_cipher":`, s.TLSCipher}, {`,"auth_plugin":`, s.AuthPlugin},
		{`,"compression":`, s.Compression}, {`,"server_version":`, s.ServerVersion},
	} {
		if f.value != "" {
			dst = appendTextField(dst, f.key, f.value, l.facts.limits.text)
		}
	}
	if l.facts.limits.attrs {
		dst = l.appendAttrs(dst, s.Attrs)
	}
	return dst
}

func appendSessionEnd(dst []byte, e *stream.Event) []byte {
	dst = append(append(append(dst, `,"visibility":"`...), e.Session.Visibility.String()...), '"')
	dst = appendUintField(dst, `,"commands":`, e.Commands)
	dst = appendUintField(dst, `,"errors":`, e.Errors)
	if reason := e.EndReason.String(); reason != "" {
		dst = append(append(append(dst, `,"end_reason":"`...), reason...), '"')
	}
	return dst
}
