package worker

import "sqlwitness/probe"

// With thousands of connections each batch finds them out of the cache: in the
// hash table, in the list by activity, and the connections themselves. Each
// of these is read for several segments or connections at a time before it is
// needed. The reads do not depend on each other, so the processor waits for them
// together. Go has no instruction to prefetch: the sums that these functions return
// mean nothing, but that the reads are done.

// warmed is how many segments or connections are warmed together: 14 lines each.
const warmed = 8

// warm reads the entries of the flows of at most warmed segments, and notes the
// hashes.
func (f *flows) warm(segments []probe.Segment, hashes *[warmed]uint64) (sum int64) {
	var found [warmed]*slot
	for i := range segments {
		hash := f.hash(&segments[i].Flow)
		slots := f.of(hash).slots
		hashes[i], found[i] = hash, &slots[hash&uint64(len(slots)-1)]
	}
	for i := range segments {
		if e := found[i].entry; e != nil {
			sum += int64(e.first) + int64(e.flow.Client.Port())
		}
	}
	return sum
}

// warmNeighbours reads what touch changes.
func warmNeighbours(entries []*entry) (sum int64) {
	for _, e := range entries {
		if e.older != nil {
			sum += int64(e.older.first)
		}
		if e.newer != nil {
			sum += int64(e.newer.first)
		}
	}
	return sum
}

// warmConns reads what draining needs of connections.
func warmConns(entries []*entry) (sum int64) {
	for _, e := range entries {
		if e.conn != nil {
			sum += e.conn.Warm()
		}
	}
	return sum
}
