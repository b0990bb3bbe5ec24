package probe

import (
	"errors"
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// rejectAll is the filter of a ring that is not to receive anything.
var rejectAll = []bpf.Instruction{bpf.RetConstant{Val: 0}}

// openSocket makes a cooked packet socket that receives nothing yet: it has no
// protocol before it is bound, and accepts nothing after.
func openSocket(c *Config) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, explain(fmt.Errorf("open packet socket: %w", err), c)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err = attach(fd, rejectAll); err != nil {
		return -1, err
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return -1, fmt.Errorf("set packet version 3: %w", err)
	}
	req := unix.TpacketReq3{
		Block_size:     uint32(c.BlockBytes),
		Block_nr:       uint32(c.Blocks),
		Frame_size:     ringFrameBytes,
		Frame_nr:       uint32(c.BlockBytes/ringFrameBytes) * uint32(c.Blocks),
		Retire_blk_tov: uint32(c.BlockTimeout.Milliseconds()),
	}
	if err = unix.SetsockoptTpacketReq3(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return -1, explain(fmt.Errorf("set up ring: %w", err), c)
	}
	// ifindex 0: all devices, those that appear later too.
	if err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL)}); err != nil {
		return -1, fmt.Errorf("bind packet socket: %w", err)
	}
	return fd, nil
}

// ringFrameBytes divides every allowed block. Version 3 packs packets of any
// length; the kernel wants the figure all the same (packet_set_ring).
const ringFrameBytes = 2048

// explain adds the cure to errors that have one.
func explain(err error, c *Config) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: live capture needs root or the capability CAP_NET_RAW (setcap cap_net_raw+ep sqlwitness)", err)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: ring_mib %d for each of %d shards does not fit into memory", err, c.Blocks*c.BlockBytes>>20, c.Shards)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("%w: the kernel has no packet sockets (CONFIG_PACKET)", err)
	}
	return err
}

// attach makes prog the filter of fd, in place of the one before it: each
// packet passes either the old or the new one. It needs no privilege.
func attach(fd int, prog []bpf.Instruction) error {
	fprog, err := assemble(prog)
	if err != nil {
		return err
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, fprog)
	if errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("attach filter of %d instructions: %w: raise the sysctl net.core.optmem_max", len(prog), err)
	}
	if err != nil {
		return fmt.Errorf("attach filter: %w", err)
	}
	return nil
}

func assemble(prog []bpf.Instruction) (*unix.SockFprog, error) {
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, fmt.Errorf("assemble filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}, nil
}

// joinFanout makes the bound sockets one group in which FlowHash picks the
// socket. The kernel chooses the group's id, so no other process shares it.
func joinFanout(fds []int) error {
	const mode = unix.PACKET_FANOUT_CBPF << 16
	first := mode | unix.PACKET_FANOUT_FLAG_UNIQUEID<<16
	if err := unix.SetsockoptInt(fds[0], unix.SOL_PACKET, unix.PACKET_FANOUT, first); err != nil {
		return fmt.Errorf("open fanout group: %w", err)
	}
	v, err := unix.GetsockoptInt(fds[0], unix.SOL_PACKET, unix.PACKET_FANOUT)
	if err != nil {
		return fmt.Errorf("read fanout group: %w", err)
	}
	for i, fd := range fds[1:] {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_FANOUT, mode|v&0xffff); err != nil {
			return fmt.Errorf("join ring %d to fanout group: %w", i+1, err)
		}
	}
	prog, err := fanoutProgram()
	if err != nil {
		return err
	}
	fprog, err := assemble(prog)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptSockFprog(fds[0], unix.SOL_PACKET, unix.PACKET_FANOUT_DATA, fprog); err != nil {
		return fmt.Errorf("set flow hash of fanout group: %w", err)
	}
	return nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }
