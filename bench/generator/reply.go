package generator

import "fmt"

// A replyReader finds where the responses of a connection end, in bytes that
// arrive in any pieces. It knows OK, ERR and result sets with EOF packets, which
// is what the capabilities of this client lead to.
type replyReader struct {
	head    [headerBytes + 1]byte
	have    int  // bytes of head
	skip    int  // bytes of the packet still to come
	packets int  // of this response
	eofs    int  // of this response
	last    bool // this packet ends the response
}

// feed takes the next bytes and returns how many responses they end.
func (r *replyReader) feed(b []byte) (ended int, err error) {
	for {
		if r.skip > 0 {
			n := min(r.skip, len(b))
			b = b[n:]
			if r.skip -= n; r.skip > 0 {
				return ended, nil
			}
		}
		if r.last {
			*r = replyReader{}
			ended++
		}
		n := copy(r.head[r.have:], b)
		b = b[n:]
		if r.have += n; r.have < len(r.head) {
			return ended, nil
		}
		if err := r.packet(); err != nil {
			return ended, err
		}
	}
}

// packet looks at the head of a packet, which is complete.
func (r *replyReader) packet() error {
	length, first := int(r.head[0])|int(r.head[1])<<8|int(r.head[2])<<16, r.head[headerBytes]
	if length == 0 {
		return fmt.Errorf("an empty packet in a response")
	}
	r.have, r.skip = 0, length-1
	switch {
	case first == errByte:
		return fmt.Errorf("the server answers with an error")
	case r.packets == 0:
		r.last = first == okByte
	case first == eofByte && length < 9:
		r.eofs++
		r.last = r.eofs == 2
	}
	r.packets++
	return nil
}
