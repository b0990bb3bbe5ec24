package faults

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"

	"sqlwitness/probe"
)

// split cuts payloads into pieces of at most size() bytes.
func split(segments []probe.Segment, size func() int) []probe.Segment {
	var out []probe.Segment
	for _, s := range segments {
		for first := true; first || len(s.Payload) > 0; first = false {
			n := min(size(), len(s.Payload))
			part := s
			part.Payload = s.Payload[:n]
			s.Payload = s.Payload[n:]
			s.Seq += uint32(n)
			if len(s.Payload) > 0 {
				part.Flags &^= probe.FIN
			}
			if s.Flags&probe.SYN != 0 {
				s.Flags &^= probe.SYN
				s.Seq++
			}
			out = append(out, part)
		}
	}
	return out
}

// merge joins neighbours of one direction, as receive offload does.
func merge(rng *rand.Rand, segments []probe.Segment) []probe.Segment {
	var out []probe.Segment
	for _, s := range segments {
		if n := len(out); n > 0 && rng.IntN(2) == 0 {
			last := &out[n-1]
			if last.FromClient == s.FromClient && last.Seq+uint32(len(last.Payload)) == s.Seq && last.Ack == s.Ack &&
				(last.Flags|s.Flags)&(probe.SYN|probe.RST) == 0 && last.Flags&probe.FIN == 0 {
				last.Payload = append(bytes.Clone(last.Payload), s.Payload...)
				last.Flags |= s.Flags
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// repeat sends some segments again, shorter or longer; the second copy may have
// other bytes, which must not count.
func repeat(rng *rand.Rand, segments []probe.Segment) []probe.Segment {
	var out []probe.Segment
	for _, s := range segments {
		out = append(out, s)
		if rng.IntN(6) > 0 || s.Flags&(probe.SYN|probe.RST|probe.FIN) != 0 || len(s.Payload) == 0 {
			continue
		}
		again := s
		again.Payload = bytes.Clone(s.Payload[:1+rng.IntN(len(s.Payload))])
		if rng.IntN(2) == 0 {
			again.Payload[rng.IntN(len(again.Payload))] ^= 0x55
		}
		out = append(out, again)
	}
	return out
}

// reorder moves segments by at most window places. The second copy of a byte
// stays behind the first, a RST behind all, a SYN where it is.
func reorder(rng *rand.Rand, segments []probe.Segment, window int) []probe.Segment {
	type placed struct {
		seg probe.Segment
		at  float64
	}
	order := make([]placed, 0, len(segments))
	latest := make(map[[2]uint32]float64) // by direction and sequence number
	for i, s := range segments {
		at := float64(i) + rng.Float64()*float64(window)
		switch {
		case s.Flags&probe.SYN != 0:
			at = float64(i)
		case s.Flags&probe.RST != 0:
			at = float64(len(segments) + window)
		}
		key := [2]uint32{s.Seq}
		if s.FromClient {
			key[1] = 1
		}
		at = max(at, latest[key])
		latest[key] = at + 1e-6
		order = append(order, placed{s, at})
	}
	slices.SortStableFunc(order, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	out := make([]probe.Segment, len(order))
	for i, p := range order {
		out[i] = p.seg
	}
	return out
}
