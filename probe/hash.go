package probe

import "net/netip"

// FNV-1a, 32 bits. http://www.isthe.com/chongo/tech/comp/fnv/
const (
	fnvOffset = 2166136261
	fnvPrime  = 16777619
	mixPrime  = 0x7feb352d
)

// FlowHash is the hash that spreads connections over shards: shard = hash % n.
// It is the same for both directions, and the kernel computes it for Rings.
//
// It is FNV-1a over address and port of each end, joined by XOR, and a last
// mix. Without the mix its lowest bit would be the parity of the lowest bits of
// all bytes, and a Linux client's pool of even ports would share one shard.
func FlowHash(f Flow) uint32 {
	return mixHash(addrPortHash(f.Client) ^ addrPortHash(f.Server))
}

func addrPortHash(a netip.AddrPort) uint32 {
	if a.Addr().Is4() {
		b := a.Addr().As4()
		return endHash(b[:], a.Port())
	}
	b := a.Addr().As16()
	return endHash(b[:], a.Port())
}

// endHash is FNV-1a over the bytes of an address, then of a port.
func endHash(addr []byte, port uint16) uint32 {
	h := uint32(fnvOffset)
	for _, b := range addr {
		h = (h ^ uint32(b)) * fnvPrime
	}
	h = (h ^ uint32(port>>8)) * fnvPrime
	return (h ^ uint32(port&0xff)) * fnvPrime
}

func mixHash(h uint32) uint32 {
	h ^= h >> 16
	h *= mixPrime
	return h ^ h>>15
}
