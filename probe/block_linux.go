package probe

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A block is one block of a TPACKET_V3 ring: struct tpacket_block_desc and the
// packets behind it (include/uapi/linux/if_packet.h, unchanged since Linux 3.2).
type block []byte

const (
	blockHeaderOff = 8 // of struct tpacket_hdr_v1 in the descriptor
	// minRecordBytes is the least that a packet takes in a block: header,
	// address and 16 bytes, rounded up (tpacket_rcv).
	minRecordBytes = 96
)

func (b block) header() *unix.TpacketHdrV1 {
	return (*unix.TpacketHdrV1)(unsafe.Pointer(&b[blockHeaderOff]))
}

// ready reports whether the kernel has handed the block to us.
func (b block) ready() bool {
	return atomic.LoadUint32(&b.header().Block_status)&unix.TP_STATUS_USER != 0
}

// packets is the number of packets in the block, also while the kernel fills it.
func (b block) packets() uint32 { return atomic.LoadUint32(&b.header().Num_pkts) }

// timedOut reports whether the kernel has handed a ready block out because of its
// age. Otherwise it was full: the packet that found no room has begun the next, or was
// dropped because the ring was full.
func (b block) timedOut() bool {
	return atomic.LoadUint32(&b.header().Block_status)&unix.TP_STATUS_BLK_TMO != 0
}

// giveBack returns the block to the kernel, empty: after a ring was full it may be a
// while until the kernel begins the block, and sets the number itself.
func (b block) giveBack() {
	atomic.StoreUint32(&b.header().Num_pkts, 0)
	atomic.StoreUint32(&b.header().Block_status, unix.TP_STATUS_KERNEL)
}

// lastNs is the time of the block's last packet.
func (b block) lastNs() int64 {
	t := &b.header().Ts_last_pkt // in version 3 the second word is nanoseconds
	return int64(t.Sec)*1e9 + int64(t.Usec)
}

// A record is one packet in a block. Its status bits are not needed: COPY is
// never set without PACKET_COPY_THRESH, LOSING says what the statistics count,
// and a tag of a VLAN is not part of the packet.
type record struct {
	b    block
	off  uint32
	left uint32 // records from this one on
}

// first is the first packet of a block that is ready.
func (b block) first() (record, bool) {
	h := b.header()
	return record{b: b, off: h.Offset_to_first_pkt, left: h.Num_pkts}.valid()
}

// next is the packet behind r. It is found by length: the packet's own bytes
// are never searched.
func (r record) next() (record, bool) {
	step := r.header().Next_offset
	if step == 0 {
		return record{}, false
	}
	return record{b: r.b, off: r.off + step, left: r.left - 1}.valid()
}

func (r record) valid() (record, bool) {
	return r, r.left > 0 && uint64(r.off)+unix.SizeofTpacket3Hdr <= uint64(len(r.b))
}

func (r record) header() *unix.Tpacket3Hdr {
	return (*unix.Tpacket3Hdr)(unsafe.Pointer(&r.b[r.off]))
}

// packet is what was captured of the packet, from its IP header on; nil if it
// does not lie in the block.
func (r record) packet() []byte {
	h := r.header()
	from := uint64(r.off) + uint64(h.Net)
	to := from + uint64(h.Snaplen)
	if to > uint64(len(r.b)) {
		return nil
	}
	return r.b[from:to:to]
}

func (r record) wireLen() int { return int(r.header().Len) }

func (r record) timeNs() int64 {
	h := r.header()
	return int64(h.Sec)*1e9 + int64(h.Nsec)
}
