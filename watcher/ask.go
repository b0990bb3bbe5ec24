package watcher

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// An Answer is what one visit to a server tells those who set up an audit. But for
// State it is empty where the server did not let the account in.
type Answer struct {
	State
	Server  ServerInfo
	Account string // whom the server takes the account for: user@host of a grant
	// Details says why neither the texts of prepared statements nor attributes of
	// older connections can be read; empty where they can.
	NoDetails string

	Roles   map[uint16]PortRole // of the server's ports beside Server.Port
	DataDir string
	Socket  string
	// SecureTransport: clients over TCP must use TLS.
	SecureTransport bool
	Transports      [transports]int // sessions; TransportNetwork where TLS is not known

	Proxies []State // of Config.Proxies, in that order
}

// A PortRole says what else a server's port is for.
type PortRole string

// The roles.
const (
	PortAdmin PortRole = "admin" // MySQL's admin_port
	PortExtra PortRole = "extra" // MariaDB's extra_port
	PortX     PortRole = "X"     // X Protocol, which is another protocol
)

// Ask logs in once, reads what a Watcher would and what is worth knowing of the
// server's configuration, and leaves. A server that cannot be asked is no error:
// the State says why. The error is that of a bad Config.
func Ask(ctx context.Context, cfg Config) (Answer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Answer{}, err
	}
	w := &Watcher{cfg: cfg, wants: newWants(), status: newStatus(cfg.String(), false, nil)}
	if w.server, err = newClient(cfg.Endpoint, cfg.Timeout); err != nil {
		return Answer{}, err
	}
	defer w.server.close()
	w.server.hello = w.hello
	a := Answer{Roles: map[uint16]PortRole{}}
	err = w.server.ask(ctx, func(ctx context.Context) error {
		if err := w.read(ctx, nil); err != nil {
			return err
		}
		if err := w.server.connect(ctx); err != nil { // read leaves where it does not see all
			return err
		}
		return w.askMore(ctx, &a)
	})
	w.status.set(w.judge(err))
	if s := w.snapshot.Load(); s != nil {
		a.Server, a.NoDetails, a.Transports = s.Server, s.NoDetails, s.Transports()
	}
	a.State = w.State()
	a.Proxies, err = askProxies(ctx, cfg)
	return a, err
}

// askProxies reads each proxy once.
func askProxies(ctx context.Context, cfg Config) (states []State, err error) {
	cfg.Log = nil
	for _, one := range cfg.Proxies {
		p, err := newProxy(one, cfg, func(proxyReadings) {})
		if err != nil {
			return nil, err
		}
		p.poll(ctx)
		p.client.close()
		states = append(states, *p.status.state.Load())
	}
	return states, nil
}

func (w *Watcher) askMore(ctx context.Context, a *Answer) error {
	err := w.server.query(ctx, "SELECT CURRENT_USER()", func(r *sql.Rows) error { return r.Scan(&a.Account) })
	if err != nil {
		return err
	}
	const variables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('datadir', 'socket', 'extra_port', 'admin_port'," +
		" 'admin_address', 'mysqlx_port', 'require_secure_transport')"
	values := map[string]string{}
	err = w.server.query(ctx, variables, func(r *sql.Rows) error {
		var name, value string
		err := r.Scan(&name, &value)
		values[strings.ToLower(name)] = value
		return err
	})
	if err != nil {
		return err
	}
	a.DataDir, a.Socket, a.SecureTransport = values["datadir"], values["socket"], on(values["require_secure_transport"])
	for name, role := range map[string]PortRole{"extra_port": PortExtra, "admin_port": PortAdmin, "mysqlx_port": PortX} {
		port, _ := strconv.ParseUint(values[name], 10, 16)
		if port != 0 && (role != PortAdmin || values["admin_address"] != "") {
			a.Roles[uint16(port)] = role
		}
	}
	return nil
}

// judge finds the cause that a reading leaves, and its reason.
func (w *Watcher) judge(err error) (Cause, string) {
	switch {
	case err != nil:
		return classify(err), err.Error()
	case w.snapshot.Load().ownUnknown:
		return CauseList, "it shows the watcher's own connection as not logged in: neither users nor places are to be relied on"
	case !w.snapshot.Load().Complete:
		return CauseProcessMissing, fmt.Sprintf("the account sees only its own connections; GRANT PROCESS ON *.* TO it (%s)", w.cfg.User)
	}
	return "", ""
}
