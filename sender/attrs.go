package sender

import (
	"strings"

	"sqlwitness/stream"
)

// appendAttrs appends the connection attributes as an object, the first of each
// name. Values of attributes that are not known to be harmless are masked.
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-connection-attribute-tables.html
func (l *Lane) appendAttrs(dst []byte, attrs []stream.Attr) []byte {
	attrs = attrs[:min(len(attrs), maxAttrs)]
	sep := `,"client_attrs":{`
	for i, a := range attrs {
		if repeated(attrs[:i], a.Key) {
			continue
		}
		dst, _ = appendJSONString(append(dst, sep...), cut(a.Key, maxTextBytes))
		value := a.Value
		if l.s.cfg.Mask && !harmlessAttr(a.Key) {
			value = "?"
		}
		dst = appendTextField(dst, ":", value, maxTextBytes)
		sep = ","
	}
	if sep == "," {
		dst = append(dst, '}')
	}
	return dst
}

func repeated(attrs []stream.Attr, key string) bool {
	for _, a := range attrs {
		if a.Key == key {
			return true
		}
	}
	return false
}

// harmlessAttr tells whether the value of an attribute is shown with masking on.
func harmlessAttr(key string) bool {
	switch key {
	case "_client_name", "_client_version", "_client_license", "_os", "_platform", "_pid", "_thread",
		"program_name", "os_user", "os_sudouser":
		return true
	}
	return strings.HasPrefix(key, "_runtime_")
}
