package watcher

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// What an event of a connection costs where proxies are configured.
func BenchmarkFind(b *testing.B) {
	held := map[netip.AddrPort]Front{}
	for i := range 1000 {
		held[addrOf(fmt.Sprintf("10.0.0.2:%d", 40000+i))] = Front{Client: addrOf("192.0.2.1:5000"), User: "ann"}
	}
	f := NewFronts([]time.Time{time.Unix(1, 0), time.Unix(2, 0), time.Unix(3, 0), time.Unix(4, 0), time.Unix(5, 0)}, addrOf("10.0.0.5:3306"), held)
	for _, c := range []struct {
		name, client string
		want         Verdict
	}{{"proxied", "10.0.0.2:40007", FrontKnown}, {"direct", "10.0.0.9:40007", NotProxied}} {
		client, server := addrOf(c.client), addrOf("10.0.0.5:3306")
		b.Run("client="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, v := f.Find(client, server, 7, 35e8); v != c.want {
					b.Fatal(v)
				}
			}
		})
	}
}
