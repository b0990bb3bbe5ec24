package stages

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"sqlwitness/probe"
)

// A BareRing is a capture without a reader's work: the ring of package probe, its
// size and its filter for IPv4, written down a second time, so that the price of
// what the reader does with a block can be told from the price of having it. Its
// blocks are walked packet by packet, which is all.
type BareRing struct {
	file *os.File
	mem  []byte
	next int
}

// BareCounts are what went by.
type BareCounts struct{ Blocks, Packets, Bytes uint64 }

// OpenBareRing captures the packets of a port on a device.
func OpenBareRing(device string, port uint16) (*BareRing, error) {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	r := &BareRing{file: os.NewFile(uintptr(fd), "bare ring")}
	const frame = 2048 // divides a block; packets have any length
	req := unix.TpacketReq3{Block_size: probe.DefaultBlockBytes, Block_nr: probe.DefaultBlocks, Frame_size: frame,
		Frame_nr: probe.DefaultBlockBytes / frame * probe.DefaultBlocks, Retire_blk_tov: uint32(probe.DefaultBlockTimeout.Milliseconds())}
	raw, err := bpf.Assemble(bareFilter(port))
	if err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	err = errors.Join(unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3),
		unix.SetsockoptTpacketReq3(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req))
	if err == nil {
		r.mem, err = unix.Mmap(fd, 0, probe.DefaultBlockBytes*probe.DefaultBlocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		const all = unix.ETH_P_ALL << 8 // in the network's order, of a machine that has the other
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up ring: %w", err), r.Close())
	}
	return r, nil
}

// bareFilter passes what probe's filter passes of IPv4: segments of the port that
// have a payload, or SYN, FIN or RST. On a SOCK_DGRAM socket offset 0 is the IP
// header; loopback's outgoing copies are left out.
func bareFilter(port uint16) []bpf.Instruction {
	const outgoing, tcp, total, protocol, controls = 4, 6, 2, 9, 7
	const pass, drop = 22, 23 // where the returns are
	to := func(target, from int) uint8 { return uint8(target - from - 1) }
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: outgoing, SkipTrue: to(drop, 1)},
		bpf.LoadExtension{Num: bpf.ExtProto},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IP, SkipTrue: to(drop, 3)},
		bpf.LoadAbsolute{Off: protocol, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: tcp, SkipTrue: to(drop, 5)},
		bpf.LoadMemShift{Off: 0}, // X = length of the IP header
		bpf.LoadIndirect{Off: 0, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipTrue: to(11, 8)},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port), SkipTrue: to(drop, 10)},
		bpf.LoadIndirect{Off: 13, Size: 1}, // 11: the flags
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: controls, SkipTrue: to(pass, 12)},
		bpf.LoadIndirect{Off: 12, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 2},
		bpf.ALUOpX{Op: bpf.ALUOpAdd},
		bpf.StoreScratch{Src: bpf.RegA, N: 0}, // length of both headers
		bpf.LoadScratch{Dst: bpf.RegX, N: 0},
		bpf.LoadAbsolute{Off: total, Size: 2},
		bpf.ALUOpX{Op: bpf.ALUOpSub},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: to(drop, 21)},
		bpf.RetConstant{Val: 1 << 18},
		bpf.RetConstant{Val: 0},
	}
}

// Run walks the blocks until stop is closed and none is left that was retired. It waits as probe's rings do, in the
// runtime's poller.
func (r *BareRing) Run(stop <-chan struct{}) (BareCounts, error) {
	var c BareCounts
	raw, err := r.file.SyscallConn()
	if err != nil {
		return c, err
	}
	ready := func(uintptr) bool { return atomic.LoadUint32(&r.header().Block_status)&unix.TP_STATUS_USER != 0 }
	for {
		select {
		case <-stop:
			if !ready(0) {
				return c, nil
			}
		default:
		}
		if err := r.file.SetReadDeadline(time.Now().Add(probe.DefaultIdleWake)); err != nil {
			return c, err
		}
		if err := raw.Read(ready); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			return c, err
		}
		r.walk(&c)
		atomic.StoreUint32(&r.header().Block_status, unix.TP_STATUS_KERNEL)
		r.next = (r.next + 1) % probe.DefaultBlocks
	}
}

// block is the next block, header its description (struct tpacket_block_desc).
func (r *BareRing) block() []byte {
	return r.mem[r.next*probe.DefaultBlockBytes:][:probe.DefaultBlockBytes]
}

func (r *BareRing) header() *unix.TpacketHdrV1 {
	return (*unix.TpacketHdrV1)(unsafe.Pointer(&r.block()[8]))
}

func (r *BareRing) walk(c *BareCounts) {
	h, b := r.header(), r.block()
	at := h.Offset_to_first_pkt
	for range h.Num_pkts {
		p := (*unix.Tpacket3Hdr)(unsafe.Pointer(&b[at]))
		c.Packets++
		c.Bytes += uint64(p.Len)
		at += p.Next_offset
	}
	c.Blocks++
}

// Close ends the capture.
func (r *BareRing) Close() error {
	var err error
	if r.mem != nil {
		err = unix.Munmap(r.mem)
	}
	return errors.Join(err, r.file.Close())
}
