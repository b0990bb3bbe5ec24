package worker

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// clerk tells of the proxies what the test says.
type clerk struct{ fronts *watcher.Fronts }

func (c *clerk) Fronts() *watcher.Fronts { return c.fronts }

// told are the readings at these seconds, in which ann held the connection from a
// port.
func (c *clerk) told(port uint16, seconds ...float64) {
	var times []time.Time
	for _, at := range seconds {
		times = append(times, time.Unix(0, int64(at*1e9)))
	}
	peer := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port)
	c.fronts = watcher.NewFronts(times, netip.MustParseAddrPort("10.0.0.1:3306"), map[netip.AddrPort]watcher.Front{peer: {Client: netip.MustParseAddrPort("192.0.2.1:5000"), User: "ann"}})
}

// places is a Sink that keeps who is said to be where.
type places struct{ lines []string }

func (p *places) Put(e *stream.Event) {
	p.lines = append(p.lines, fmt.Sprintf("%s %q client %s proxy %s user %q from %s", e.Kind, e.SQL, place(e.Session.Client), place(e.Session.Proxy), e.User, e.UserSource))
}
func (p *places) Flush() {}

func place(a netip.AddrPort) string {
	if !a.IsValid() {
		return "-"
	}
	return a.String()
}

func newProxyStage(t *testing.T, c Config) (*stage, *places, *clerk) {
	out, desk := &places{}, &clerk{}
	c.Proxies = desk
	return &stage{t: t, shard: NewShard(c, &script{}, out)}, out, desk
}

func (p *places) expect(t *testing.T, want ...string) {
	t.Helper()
	if fmt.Sprint(p.lines) != fmt.Sprint(want) {
		t.Errorf("events\n%q\nwant\n%q", p.lines, want)
	}
	p.lines = nil
}

const (
	ms        = int64(time.Millisecond)
	peer40000 = "10.0.0.2:40000"
)

func line(kind, sql, client, proxy, user string) string {
	return fmt.Sprintf("%s %q client %s proxy %s user %s", kind, sql, client, proxy, user)
}

// Commands of a proxy's connection wait for the reading after them, all of them in
// order, and carry the client that held the connection before and after. The
// session has no client of its own.
func TestProxied(t *testing.T) {
	g, out, proxy := newProxyStage(t, Config{})
	g.batch(500*ms, query(500*ms, 40000, 0)...) // before the proxy was asked
	out.expect(t, line("session_start", "", peer40000, "-", `"" from `), line("command", "select 0", peer40000, "-", `"" from `))
	proxy.told(40000, 1)
	g.batch(1500*ms, query(1500*ms, 40000, 1)...)
	g.batch(1600*ms, query(1600*ms, 40000, 2)...)
	g.batch(1700*ms, query(1700*ms, 40001, 0)...) // somebody else
	out.expect(t, line("session_start", "", "10.0.0.2:40001", "-", `"" from `), line("command", "select 0", "10.0.0.2:40001", "-", `"" from `))
	proxy.told(40000, 1, 2)
	g.batch(2100 * ms)
	out.expect(t, line("command", "select 1", "192.0.2.1:5000", peer40000, `"ann" from proxy`), line("command", "select 2", "192.0.2.1:5000", peer40000, `"ann" from proxy`))
	g.batch(2200*ms, query(2200*ms, 40000, 3)...)
	g.shard.closeAll() // the next reading does not come
	out.expect(t, line("session_end", "", "10.0.0.2:40001", "-", `"" from `),
		line("command", "select 3", "-", peer40000, `"" from `), line("session_end", "", "-", peer40000, `"" from `))
	if s := g.shard.stats; s.ProxiedCommands != 3 || s.ProxiedKnown != 2 || g.shard.proxied.bytes != 0 {
		t.Errorf("%d commands, %d known; %d bytes left behind", s.ProxiedCommands, s.ProxiedKnown, g.shard.proxied.bytes)
	}
}

// Who waits in vain goes on without a client, and so does whoever finds no room.
func TestProxiedBounds(t *testing.T) {
	g, out, proxy := newProxyStage(t, Config{IdentityWait: time.Second})
	proxy.told(40000, 1)
	g.batch(1500*ms, query(1500*ms, 40000, 0)...)
	g.batch(2400 * ms)
	out.expect(t, line("session_start", "", "-", peer40000, `"" from `))
	g.batch(2600 * ms)
	out.expect(t, line("command", "select 0", "-", peer40000, `"" from `))

	g, out, proxy = newProxyStage(t, Config{IdentityBytes: 1500})
	proxy.told(40000, 1)
	for n := range 5 {
		at := 1500*ms + int64(n)*1000
		g.batch(at, query(at, 40000, n)...)
	}
	if len(out.lines) != 4 || g.shard.proxied.bytes > 1500 {
		t.Errorf("%d events, want the start and the three that found no room; %d bytes", len(out.lines), g.shard.proxied.bytes)
	}
}

// An event waits for its user first, then for its client. What the process list says
// of the user stands.
func TestProxiedIdentity(t *testing.T) {
	desk := &desk{}
	g, out, proxy := newProxyStage(t, Config{Watcher: desk})
	proxy.told(40000, 0.5)
	g.batch(second, query(second, 40000, 0)...)
	out.expect(t)
	desk.snap = list(1, 1200*ms, 1200*ms+100, map[uint16]string{40000: "app"})
	g.batch(1300 * ms)
	out.expect(t, line("session_start", "", "-", peer40000, `"app" from processlist`))
	proxy.told(40000, 0.5, 1.5)
	g.batch(1600 * ms)
	out.expect(t, line("command", "select 0", "192.0.2.1:5000", peer40000, `"app" from processlist`))
}
