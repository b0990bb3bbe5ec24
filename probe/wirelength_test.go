package probe

import (
	"encoding/binary"
	"io"
	"math"
	"testing"

	"github.com/google/gopacket/layers"
)

// TestDamagedWireLength: a frame that says it was longer than any packet is taken for
// what is there: its length would become a hole of gigabytes in the stream.
func TestDamagedWireLength(t *testing.T) {
	unmeasured := query(1, "select 1") // as one that the network card is to cut
	binary.BigEndian.PutUint16(unmeasured[2:], 0)
	for name, capture := range map[string][]byte{
		"pcap": writePcap(t, linkRaw, false, testFrame{data: unmeasured, wire: math.MaxUint32}, testFrame{data: unmeasured, wire: len(unmeasured) + 100}),
		"pcapng": writePcapng(t, []layers.LinkType{layers.LinkType(linkRaw)},
			testFrame{data: unmeasured, wire: math.MaxUint32}, testFrame{data: unmeasured, wire: len(unmeasured) + 100}),
	} {
		segs, err := readAll(openBytes(t, capture, watch3306))
		if err != io.EOF || len(segs) != 2 || segs[0].Snipped != 0 || segs[1].Snipped != 100 {
			t.Errorf("%s: %+v, %v", name, segs, err)
		}
	}
}
