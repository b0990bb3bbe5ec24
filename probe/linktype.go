package probe

import (
	"encoding/binary"
	"fmt"
)

// A linkType says what the bytes before the IP header of a captured frame are.
// https://www.tcpdump.org/linktypes.html
type linkType uint32

const (
	linkNull     linkType = 0
	linkEthernet linkType = 1
	linkRawBSD   linkType = 12
	linkRawOpen  linkType = 14
	linkRaw      linkType = 101
	linkLoop     linkType = 108
	linkSLL      linkType = 113
	linkIPv4     linkType = 228
	linkIPv6     linkType = 229
	linkSLL2     linkType = 276
)

// String names the link types that captures come with, known or not.
func (l linkType) String() string {
	name, ok := map[linkType]string{
		linkNull: "NULL", linkEthernet: "Ethernet", linkRawBSD: "RAW", linkRawOpen: "RAW", linkRaw: "RAW",
		linkLoop: "LOOP", linkSLL: "LINUX_SLL", linkIPv4: "IPV4", linkIPv6: "IPV6", linkSLL2: "LINUX_SLL2",
		6: "IEEE802_5", 9: "PPP", 50: "PPP_HDLC", 105: "IEEE802_11", 127: "IEEE802_11_RADIOTAP", 147: "USER0",
		189: "USB_LINUX", 192: "PPI", 195: "IEEE802_15_4", 220: "USB_LINUX_MMAPPED", 239: "NFLOG",
		249: "USBPCAP", 253: "NETLINK", 258: "PKTAP",
	}[l]
	if !ok {
		return fmt.Sprintf("link type %d", uint32(l))
	}
	return fmt.Sprintf("link type %d (%s)", uint32(l), name)
}

// check is an error for link types that packetOffset does not know.
func (l linkType) check() error {
	switch l {
	case linkNull, linkEthernet, linkRawBSD, linkRawOpen, linkRaw, linkLoop, linkSLL, linkIPv4, linkIPv6, linkSLL2:
		return nil
	}
	return fmt.Errorf("%v is not supported; Ethernet, RAW, IPV4, IPV6, NULL, LOOP, LINUX_SLL and LINUX_SLL2 are", l)
}

// packetOffset is where the IP header of a frame starts.
func packetOffset(l linkType, frame []byte) (int, Outcome) {
	switch l {
	case linkRaw, linkRawBSD, linkRawOpen, linkIPv4, linkIPv6:
		return 0, Accepted
	case linkEthernet:
		return skipTags(frame, 12)
	case linkSLL:
		return skipTags(frame, 14)
	case linkSLL2:
		// The protocol comes first, the header goes on to byte 20. A tag, if
		// any, is behind the header and ends in the protocol it hides.
		if len(frame) < 20 {
			return 0, Short
		}
		switch binary.BigEndian.Uint16(frame) {
		case etherTypeIPv4, etherTypeIPv6:
			return 20, Accepted
		case etherTypeVLAN, etherTypeQinQ, etherTypeQinQOld:
			return skipTags(frame, 22)
		}
		return 0, NotIP
	case linkNull, linkLoop:
		return skipFamily(frame)
	}
	return 0, UnknownLink
}

// Tag protocols of IEEE 802.1Q and 802.1ad, and the one in use before the latter.
const (
	etherTypeVLAN    = 0x8100
	etherTypeQinQ    = 0x88a8
	etherTypeQinQOld = 0x9100
)

// skipTags steps over any number of VLAN tags from the EtherType at off on.
func skipTags(frame []byte, off int) (int, Outcome) {
	for off+2 <= len(frame) {
		switch binary.BigEndian.Uint16(frame[off:]) {
		case etherTypeIPv4, etherTypeIPv6:
			return off + 2, Accepted
		case etherTypeVLAN, etherTypeQinQ, etherTypeQinQOld:
			off += 4
		case etherTypeMPLS, etherTypeMPLSMulti, etherTypePPPoE:
			return 0, Encapsulated
		default:
			return 0, NotIP
		}
	}
	return 0, Short
}

// skipFamily steps over the address family of BSD loopback frames, which is in
// the byte order of the machine that captured (NULL) or of the network (LOOP).
// IPv6 has a number of its own on each system.
func skipFamily(frame []byte) (int, Outcome) {
	if len(frame) < 4 {
		return 0, Short
	}
	family := binary.LittleEndian.Uint32(frame)
	if family > 0xffff {
		family = binary.BigEndian.Uint32(frame)
	}
	switch family {
	case 2, 10, 24, 28, 30:
		return 4, Accepted
	}
	return 0, NotIP
}
