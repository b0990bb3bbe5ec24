package probe

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
)

// Attributes of a link, include/uapi/linux/if_link.h.
const (
	iflaGSOMaxSize     = 41
	iflaGSOIPv4MaxSize = 63 // Linux 6.3
)

// MaxSegment returns the largest super-segment, in bytes, that the devices with
// these indexes may send (nil = all): their gso_max_size. A ring's block must hold
// two of them, or they arrive cut.
func MaxSegment(indexes []int) (int, error) {
	dump, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return 0, fmt.Errorf("list links: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(dump)
	if err != nil {
		return 0, fmt.Errorf("list links: %w", err)
	}
	largest := 0
	for i := range messages {
		m := &messages[i]
		if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < syscall.SizeofIfInfomsg {
			continue
		}
		index := int(int32(binary.NativeEndian.Uint32(m.Data[4:]))) // struct ifinfomsg
		if indexes != nil && !slices.Contains(indexes, index) {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return 0, fmt.Errorf("list links: %w", err)
		}
		for _, a := range attrs {
			if (a.Attr.Type == iflaGSOMaxSize || a.Attr.Type == iflaGSOIPv4MaxSize) && len(a.Value) >= 4 {
				largest = max(largest, int(binary.NativeEndian.Uint32(a.Value)))
			}
		}
	}
	return largest, nil
}
