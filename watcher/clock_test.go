package watcher

import (
	"net/netip"
	"testing"
	"time"
	"unsafe"
)

// setMeanwhile is a time as it is kept when the machine's clock is set by so many
// seconds behind it. The seconds stand above 30 bits of nanoseconds (time.Time).
func setMeanwhile(t time.Time, seconds int64) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) -= uint64(seconds << 30)
	return t
}

// A reading lasted as long as it did, in the clock that shows its end.
func TestSpan(t *testing.T) {
	for _, seconds := range []int64{0, 100, -100} {
		began := time.Now()
		ended := began.Add(time.Second)
		began = setMeanwhile(began, seconds)
		if beginNs, endNs := span(began, ended); endNs != ended.UnixNano() || endNs-beginNs != int64(time.Second) {
			t.Errorf("set by %d s: a second is %v", seconds, time.Duration(endNs-beginNs))
		}
	}
}

// Readings of before the clock was set back are none before a command that came
// behind, nor are they kept for the length of the step.
func TestFrontsSetBack(t *testing.T) {
	const second = int64(time.Second)
	b := backend{addrOf("10.0.0.2:40001"), 3306}
	server := netip.MustParseAddr("10.0.0.5")
	h := hold{Front: Front{Client: addrOf("192.0.2.1:5000"), User: "ann"}, lent: "1", serverHost: server}
	p := proxyReadings{}
	for _, at := range []int64{1000, 1001, 900, 901} {
		p = p.with(reading{beganNs: at * second, endedNs: at*second + 1, held: map[backend]hold{b: h}}, (at-10)*second)
	}
	if len(p.readings) != 2 || p.readings[0].beganNs != 900*second {
		t.Fatalf("%d readings", len(p.readings))
	}
	if _, v := p.find(b, end{server: server}, 900*second+second/2); v != FrontKnown {
		t.Errorf("between the readings behind: %d", v)
	}
	if _, v := p.find(b, end{server: server}, 899*second); v != FrontUnknown {
		t.Errorf("before them: %d", v)
	}
}
