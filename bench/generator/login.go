package generator

import (
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Capabilities that both ends have,
// https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html
const (
	longPassword     = 1 << 0
	connectWithDB    = 1 << 3
	protocol41       = 1 << 9
	transactions     = 1 << 13
	secureConnection = 1 << 15
	pluginAuth       = 1 << 19

	capabilities = longPassword | connectWithDB | protocol41 | transactions | secureConnection | pluginAuth
)

const (
	serverVersion = "8.0.40-generator"
	plugin        = "mysql_native_password"
	saltBytes     = 20
	schema        = "sbtest" // which a client asks for
)

// greeting is the server's first packet,
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html
func greeting(id uint32, salt []byte) []byte {
	b := append([]byte{10}, serverVersion+"\x00"...)
	b = binary.LittleEndian.AppendUint32(b, id)
	b = append(append(b, salt[:8]...), 0)
	b = binary.LittleEndian.AppendUint16(b, capabilities&0xffff)
	b = append(b, 45, 2, 0) // utf8mb4, autocommit
	b = binary.LittleEndian.AppendUint16(b, capabilities>>16)
	b = append(b, saltBytes+1)
	b = append(b, make([]byte, 10)...)
	b = append(append(b, salt[8:]...), 0)
	return appendPacket(nil, 0, append(b, plugin+"\x00"...)...)
}

// parseGreeting reads what a client needs of a server's greeting.
func parseGreeting(b []byte) (id uint32, salt []byte, err error) {
	errShort := errors.New("the greeting is cut")
	if len(b) > 3 && b[0] == errByte {
		return 0, nil, fmt.Errorf("the server refuses: %q", b[3:])
	}
	zero := bytes.IndexByte(b, 0)
	if len(b) < 1 || b[0] != 10 || zero < 0 {
		return 0, nil, errors.New("not a greeting of protocol 10")
	}
	b = b[zero+1:]
	if len(b) < 4+8+1+2+3+2+1+10+12 {
		return 0, nil, errShort
	}
	salt = append(append(salt, b[4:12]...), b[31:43]...)
	return binary.LittleEndian.Uint32(b), salt, nil
}

// loginPacket answers the greeting,
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html
func loginPacket(user, password string, salt []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, capabilities)
	b = binary.LittleEndian.AppendUint32(b, 1<<24)
	b = append(append(b, 45), make([]byte, 23)...)
	b = append(b, user+"\x00"...)
	token := scramble(password, salt)
	b = append(append(b, byte(len(token))), token...)
	return appendPacket(nil, 1, append(b, schema+"\x00"+plugin+"\x00"...)...)
}

// login is what a server needs of a client's answer.
func login(b []byte) (user string, token []byte, err error) {
	const fixed = 4 + 4 + 1 + 23
	if len(b) < fixed || binary.LittleEndian.Uint32(b)&(protocol41|secureConnection) != protocol41|secureConnection {
		return "", nil, errors.New("not a login of protocol 4.1")
	}
	name, rest, ok := bytes.Cut(b[fixed:], []byte{0})
	if !ok || len(rest) < 1 || len(rest) < 1+int(rest[0]) {
		return "", nil, errors.New("the login is cut")
	}
	return string(name), rest[1 : 1+int(rest[0])], nil
}

// scramble is the proof of a password for mysql_native_password:
// SHA1(password) xor SHA1(salt, SHA1(SHA1(password))).
func scramble(password string, salt []byte) []byte {
	if password == "" {
		return nil
	}
	one := sha1.Sum([]byte(password))
	two := sha1.Sum(one[:])
	three := sha1.Sum(append(append([]byte{}, salt...), two[:]...))
	token := make([]byte, len(one))
	subtle.XORBytes(token, one[:], three[:])
	return token
}

// readPacket reads one packet from a connection that nobody else reads.
func readPacket(r io.Reader) ([]byte, error) {
	var h [headerBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, err
	}
	body := make([]byte, int(h[0])|int(h[1])<<8|int(h[2])<<16)
	_, err := io.ReadFull(r, body)
	return body, err
}
