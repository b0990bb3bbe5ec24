package watcher

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A proxy asks one ProxySQL.
type proxy struct {
	client   *client
	status   *status
	interval time.Duration
	remember time.Duration
	readings proxyReadings
	publish  func(proxyReadings)
	failures int
}

func newProxy(p ProxyConfig, cfg Config, publish func(proxyReadings)) (*proxy, error) {
	c, err := newClient(p.Endpoint, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	return &proxy{client: c, interval: p.Interval, remember: cfg.Remember, status: newStatus(p.String(), true, cfg.Log), publish: publish,
		readings: proxyReadings{sticky: p.Sticky}}, nil
}

// poll reads the proxy's sessions. It is a step of repeat. What a proxy told before
// it could not be asked is forgotten: it may have been started anew.
func (p *proxy) poll(ctx context.Context) func() time.Time {
	began := time.Now()
	var now reading
	in := false
	err := p.client.ask(ctx, func(ctx context.Context) (err error) {
		in = true
		now, err = p.read(ctx)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return at(began)
	case err != nil:
		p.readings.readings = nil
		p.publish(p.readings)
		p.status.set(causeOfProxy(err, in), err.Error())
		p.failures++
		return at(time.Now().Add(backoff(p.failures)))
	}
	p.failures = 0
	p.readings = p.readings.with(now, now.beganNs-int64(p.remember))
	p.publish(p.readings)
	p.judge(now)
	return at(began.Add(p.interval))
}

// causeOfProxy classifies an error. ProxySQL gives every question that it refuses
// the error number of a refused login, 1045.
// (send_MySQL_ERR, lib/ProxySQL_Admin.cpp)
func causeOfProxy(err error, loggedIn bool) Cause {
	if loggedIn && answered(err) {
		return CauseQuery
	}
	return classify(err)
}

// judge sets the state: where nothing is told of lending, or which server it is, no
// client can be told. A reading in which nobody holds a connection shows nothing.
func (p *proxy) judge(r reading) {
	told := false
	for _, h := range r.held {
		told = told || h.lent != "" || p.readings.sticky && h.serverHost.IsValid()
	}
	switch {
	case told, len(r.held) == 0 && p.status.state.Load().Cause != CauseNotExtended:
		p.status.set("", "")
	default:
		p.status.set(CauseNotExtended, "it does not tell when it lends a connection to another client, so no client can be named;"+
			" on its admin interface SET mysql-show_processlist_extended=1; LOAD MYSQL VARIABLES TO RUNTIME, or, if it never does and has its servers by address, sticky: true")
	}
}

// The columns that are read of stats_mysql_processlist. Old versions have their
// ports as numbers, later ones as text.
// https://proxysql.com/documentation/stats-statistics/#stats_mysql_processlist
const (
	fromProxy         = "SELECT SessionID, user, cli_host, cli_port, srv_host, srv_port, l_srv_host, l_srv_port FROM stats_mysql_processlist WHERE l_srv_port > 0"
	fromProxyExtended = "SELECT SessionID, user, cli_host, cli_port, srv_host, srv_port, l_srv_host, l_srv_port, extended_info FROM stats_mysql_processlist WHERE l_srv_port > 0"
)

// read asks for the sessions that hold a backend connection now.
func (p *proxy) read(ctx context.Context) (reading, error) {
	r, began := reading{held: map[backend]hold{}}, time.Now()
	question := fromProxyExtended
	if p.readings.sticky {
		question = fromProxy
	}
	twice := map[backend]bool{}
	err := p.client.query(ctx, question, func(rows *sql.Rows) error {
		var c [9]sql.NullString
		into := []any{&c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7]}
		if !p.readings.sticky {
			into = append(into, &c[8])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		client, server, local := addrPort(c[2].String, c[3].String), addrPort(c[4].String, c[5].String), addrPort(c[6].String, c[7].String)
		port, err := strconv.ParseUint(c[5].String, 10, 16)
		session, errSession := strconv.ParseUint(c[0].String, 10, 64)
		if err != nil || errSession != nil || !client.IsValid() || !local.IsValid() {
			return nil
		}
		b := backend{local, uint16(port)}
		if _, seen := r.held[b]; seen {
			twice[b] = true // one local end can serve two servers
		}
		h := hold{Front: Front{Client: client, User: c[1].String, Session: session}, serverHost: server.Addr()}
		h.extend(c[8].String)
		r.held[b] = h
		return nil
	})
	for b := range twice {
		delete(r.held, b)
	}
	r.beganNs, r.endedNs = span(began, time.Now())
	return r, err
}

// extend reads extended_info: for each backend connection that the session holds, its
// address in the proxy, how often it was attached to a session, and its id at the
// server. As long as none of the first two changes, nobody else had one of them.
// Nothing is told where mysql-show_processlist_extended is 0.
// https://proxysql.com/documentation/proxysql-internal-session/
func (h *hold) extend(info string) {
	var session struct {
		Backends []struct {
			Conn *struct {
				Address string  `json:"address"`
				Gets    *uint64 `json:"myconnpoll_get"`
				MySQL   struct {
					ID uint64 `json:"thread_id"`
				} `json:"mysql"`
			} `json:"conn"`
		} `json:"backends"`
	}
	if json.Unmarshal([]byte(info), &session) != nil {
		return
	}
	var all strings.Builder
	var ids []uint32
	for _, b := range session.Backends {
		if b.Conn == nil {
			continue
		}
		if b.Conn.Gets == nil {
			return
		}
		all.WriteString(b.Conn.Address + " " + strconv.FormatUint(*b.Conn.Gets, 10) + ";")
		ids = append(ids, uint32(b.Conn.MySQL.ID))
	}
	h.lent = all.String()
	if len(ids) <= maxIDs && !slices.Contains(ids, 0) {
		copy(h.ids[:], ids)
	}
}

// addrPort is invalid if host is not an address or port not a port.
func addrPort(host, port string) netip.AddrPort {
	ip, err := netip.ParseAddr(host)
	n, errPort := strconv.ParseUint(port, 10, 16)
	if err != nil || errPort != nil || n == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(n))
}
