package watcher

import (
	"context"
	"database/sql"
	"net/netip"
	"sync/atomic"
	"time"
)

// A Front is a client of a proxy, whose commands a backend connection carried.
type Front struct {
	Client  netip.AddrPort
	User    string
	Session uint64 // the proxy's id of the client's session
	// [SinceNs, UntilNs] begins at the end of the first poll and ends at the
	// start of the last poll in a row that saw this session hold the backend
	// connection. It is empty (Since > Until) after a single poll.
	SinceNs, UntilNs int64

	serverHost netip.Addr // as the proxy dialled it; invalid if by name
}

// A backend names a connection from a proxy to a server.
type backend struct {
	local netip.AddrPort // the proxy's end: the server's client
	port  uint16         // the server's
}

// A proxy asks one ProxySQL.
type proxy struct {
	client   *client
	status   *status
	interval time.Duration
	fronts   atomic.Pointer[map[backend]Front]
	failures int
}

func newProxy(p ProxyConfig, cfg Config) (*proxy, error) {
	c, err := newClient(p.Endpoint, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	return &proxy{client: c, interval: p.Interval, status: newStatus(p.String(), cfg.Log)}, nil
}

// Front is the client behind a connection from a proxy, if the same session of
// the proxy held that connection in the polls before and after the time atNs,
// and in all polls between them. What happened between two polls is not seen: a
// proxy that lends the connection to others within Interval and gives it back
// is not noticed. A poll after atNs is needed: ask again later for a recent
// time. Front does not wait.
func (w *Watcher) Front(client, server netip.AddrPort, atNs int64) (Front, bool) {
	for _, p := range w.proxies {
		fronts := p.fronts.Load()
		if fronts == nil {
			continue
		}
		f, ok := (*fronts)[backend{client, server.Port()}]
		if ok && f.SinceNs <= atNs && atNs <= f.UntilNs && (!f.serverHost.IsValid() || f.serverHost == server.Addr()) {
			return f, true
		}
	}
	return Front{}, false
}

// poll reads the proxy's sessions. It is a step of repeat.
func (p *proxy) poll(ctx context.Context) func() time.Time {
	began := time.Now()
	var now map[backend]Front
	err := p.client.ask(ctx, func(ctx context.Context) (err error) {
		now, err = p.read(ctx)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return at(began)
	case err != nil:
		p.fronts.Store(nil)
		p.status.set(classify(err), err.Error())
		p.failures++
		return at(time.Now().Add(backoff(p.failures)))
	}
	p.failures = 0
	p.keep(now, began.UnixNano())
	p.status.set("", "")
	return at(began.Add(p.interval))
}

// keep prolongs the fronts that the last poll had as well. A front that is gone
// or has changed is not known any more: nobody saw when.
func (p *proxy) keep(now map[backend]Front, beganNs int64) {
	endedNs := time.Now().UnixNano()
	var last map[backend]Front
	if l := p.fronts.Load(); l != nil {
		last = *l
	}
	for b, f := range now {
		f.SinceNs, f.UntilNs = endedNs, beganNs
		if was, ok := last[b]; ok && was.Session == f.Session && was.Client == f.Client && was.serverHost == f.serverHost {
			f.SinceNs = was.SinceNs
		}
		now[b] = f
	}
	p.fronts.Store(&now)
}

// read asks for the sessions that hold a backend connection now.
// https://proxysql.com/documentation/stats-statistics/#stats_mysql_processlist
func (p *proxy) read(ctx context.Context) (map[backend]Front, error) {
	fronts := map[backend]Front{}
	twice := map[backend]bool{}
	const question = "SELECT SessionID, user, cli_host, cli_port, srv_host, srv_port, l_srv_host, l_srv_port" +
		" FROM stats_mysql_processlist WHERE l_srv_port > 0"
	err := p.client.query(ctx, question, func(r *sql.Rows) error {
		var session, cliPort, srvPort, localPort sql.NullInt64
		var user, cliHost, srvHost, localHost sql.NullString
		if err := r.Scan(&session, &user, &cliHost, &cliPort, &srvHost, &srvPort, &localHost, &localPort); err != nil {
			return err
		}
		client, local := addrPort(cliHost.String, cliPort.Int64), addrPort(localHost.String, localPort.Int64)
		if !client.IsValid() || !local.IsValid() {
			return nil
		}
		b := backend{local, uint16(srvPort.Int64)}
		if _, seen := fronts[b]; seen {
			twice[b] = true // one local end can serve two servers
		}
		f := Front{Client: client, User: user.String, Session: uint64(session.Int64)}
		f.serverHost = addrPort(srvHost.String, srvPort.Int64).Addr()
		fronts[b] = f
		return nil
	})
	for b := range twice {
		delete(fronts, b)
	}
	return fronts, err
}

// addrPort is invalid if host is not an address or port not a port.
func addrPort(host string, port int64) netip.AddrPort {
	ip, err := netip.ParseAddr(host)
	if err != nil || port <= 0 || port > 65535 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(port))
}
