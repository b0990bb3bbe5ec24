package watcher

import (
	"context"
	"database/sql"
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// A Flavour is a family of servers.
type Flavour uint8

// The flavours. Percona Server is MySQL here.
const (
	FlavourUnknown Flavour = iota
	MariaDB
	MySQL
)

// String is the name of the flavour.
func (f Flavour) String() string { return [...]string{"unknown", "MariaDB", "MySQL"}[f] }

// ServerInfo is what a server says of itself at the start of a connection.
type ServerInfo struct {
	Version, Comment string // version, without the prefix "5.5.5-"; version_comment
	Flavour          Flavour
	Hostname         string
	Port             uint16
	// At is the address that the watcher reached the server at, not valid over a unix
	// socket. Here are the addresses of this machine, nil if that was not on it.
	At   netip.Addr
	Here []netip.Addr
	// OtherPorts are those that the server listens on as well: extra_port of
	// MariaDB, admin_port of MySQL where admin_address is set.
	OtherPorts  []uint16
	BindAddress string // bind_address: addresses with commas between; empty if the server does not tell
	// InitConnect holds statements that the server runs at logins, but for those of
	// administrators, and counts as Questions (MariaDB 10.11, tried).
	InitConnect  string
	SQLMode      string // global: sessions may differ
	CharacterSet string // character_set_server
	// SkipNameResolve tells that the server shows addresses, not names.
	SkipNameResolve   bool
	PerformanceSchema bool
	// ProxyNetworks are from where the server takes PROXY headers, or took them since
	// the watcher has logged in; nil = from nowhere. A network that is not valid stands
	// for the unix socket.
	ProxyNetworks []netip.Prefix
}

// session is what a connection of the watcher's own has learned of the server.
type session struct {
	id      uint64 // connection id
	info    ServerInfo
	process bool // the account may see all sessions
	list    bool // performance_schema.processlist can be used
	details string
	proxies bool // the server has proxy_protocol_networks

	transport Transport
	start     start
}

// hello learns whom the watcher is connected to.
func (w *Watcher) hello(ctx context.Context, c *client) error {
	var s session
	err := c.query(ctx, "SELECT CONNECTION_ID()", func(r *sql.Rows) error { return r.Scan(&s.id) })
	if err != nil {
		return err
	}
	if s.start, err = w.startOf(ctx); err != nil {
		return err
	}
	s.info = ServerInfo{Flavour: MySQL}
	const variables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'hostname', 'port'," +
		" 'sql_mode', 'character_set_server', 'skip_name_resolve', 'performance_schema'," +
		" 'proxy_protocol_networks', 'bind_address', 'extra_port', 'admin_address', 'admin_port', 'init_connect')"
	values := make(map[string]string)
	err = c.query(ctx, variables, func(r *sql.Rows) error {
		var name, value string
		err := r.Scan(&name, &value)
		s.info.set(name, value)
		values[strings.ToLower(name)] = value
		return err
	})
	if err != nil {
		return err
	}
	s.info.BindAddress, s.info.OtherPorts, s.info.InitConnect = values["bind_address"], otherPorts(values), values["init_connect"]
	var networks string
	networks, s.proxies = values["proxy_protocol_networks"]
	s.info.ProxyNetworks = proxyNetworks(networks)
	if s.transport, err = w.ownTransport(ctx); err != nil {
		return err
	}
	if s.process, err = w.hasProcess(ctx); err != nil {
		return err
	}
	s.list = s.info.PerformanceSchema && s.info.Flavour == MySQL
	switch {
	case !s.info.PerformanceSchema:
		s.details = "performance_schema is off"
	case w.slow():
		s.details = w.own.details // do not ask for more
	default:
		if s.details, err = w.refusedDetails(ctx); err != nil {
			return err
		}
	}
	if !s.follows(&w.own) {
		w.starts++
	}
	w.own, w.newServer = s, true
	return nil
}

// otherPorts reads the variables that name ports beside port.
func otherPorts(variables map[string]string) (ports []uint16) {
	for name, used := range map[string]bool{"extra_port": true, "admin_port": variables["admin_address"] != ""} {
		if n, _ := strconv.ParseUint(variables[name], 10, 16); used && n != 0 {
			ports = append(ports, uint16(n))
		}
	}
	return ports
}

// ownTransport is that of the connection in hand.
func (w *Watcher) ownTransport(ctx context.Context) (Transport, error) {
	mode, err := w.cfg.tls()
	switch {
	case err != nil:
		return TransportUnknown, err
	case w.cfg.Socket != "":
		return TransportSocket, nil
	case mode.name == "false":
		return TransportTCP, nil
	}
	cipher := ""
	err = w.server.query(ctx, "SHOW SESSION STATUS LIKE 'Ssl_cipher'", func(r *sql.Rows) error {
		var name string
		return r.Scan(&name, &cipher)
	})
	if cipher == "" {
		return TransportTCP, err
	}
	return TransportTLS, err
}

// refusedDetails says which of the tables that Details come from cannot be read.
func (w *Watcher) refusedDetails(ctx context.Context) (string, error) {
	for _, table := range []string{"threads", "prepared_statements_instances", "session_connect_attrs"} {
		err := w.server.query(ctx, "SELECT 1 FROM performance_schema."+table+" LIMIT 0", func(*sql.Rows) error { return nil })
		if refusedTable(err) {
			return refusal(err), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// refusal is the reason for missing Details.
func refusal(err error) string { return "performance_schema cannot be read: " + err.Error() }

func (i *ServerInfo) set(name, value string) {
	switch strings.ToLower(name) {
	case "version":
		i.Version = strings.TrimPrefix(value, "5.5.5-")
	case "version_comment":
		i.Comment = value
	case "hostname":
		i.Hostname = value
	case "port":
		n, _ := strconv.ParseUint(value, 10, 16)
		i.Port = uint16(n)
	case "sql_mode":
		i.SQLMode = value
	case "character_set_server":
		i.CharacterSet = value
	case "skip_name_resolve":
		i.SkipNameResolve = on(value)
	case "performance_schema":
		i.PerformanceSchema = on(value)
	}
	if strings.Contains(strings.ToLower(value), "mariadb") && strings.HasPrefix(strings.ToLower(name), "version") {
		i.Flavour = MariaDB
	}
}

func on(value string) bool { return strings.EqualFold(value, "ON") || value == "1" }

// hasProcess tells whether this connection may see all sessions. A privilege
// that was granted or taken later does not count in a connection that is open,
// but is listed at once; so ask for something that needs it. Where InnoDB is
// not there to be asked, the list of grants must do.
// https://mariadb.com/kb/en/information-schema-innodb_cmp-and-innodb_cmp_reset-tables/
func (w *Watcher) hasProcess(ctx context.Context) (bool, error) {
	rows := 0
	err := w.server.query(ctx, "SELECT PAGE_SIZE FROM information_schema.INNODB_CMP", func(*sql.Rows) error { rows++; return nil })
	switch {
	case err == nil && rows > 0:
		return true, nil
	case err == nil, number(err) == 1227:
		return false, nil
	case !answered(err):
		return false, err
	}
	granted := false
	err = w.server.query(ctx, "SHOW GRANTS", func(r *sql.Rows) error {
		var grant string
		err := r.Scan(&grant)
		granted = granted || grantsProcess(grant)
		return err
	})
	return granted, err
}

// grantsProcess reads a line of SHOW GRANTS. The privileges of enabled roles
// are among the lines.
func grantsProcess(grant string) bool {
	privileges, _, ok := strings.Cut(grant, " ON *.* TO ")
	privileges, isGrant := strings.CutPrefix(privileges, "GRANT ")
	if !ok || !isGrant {
		return false
	}
	for p := range strings.SplitSeq(privileges, ",") {
		if p = strings.TrimSpace(p); p == "PROCESS" || p == "ALL PRIVILEGES" {
			return true
		}
	}
	return false
}

// number is the server's error number, 0 if err is none of the server's.
func number(err error) uint16 {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

// refusedTable tells that a table is not there, or not for this account.
func refusedTable(err error) bool {
	switch number(err) {
	case 1142, 1143, 1044, 1146, 1109, 1049, 1054:
		return true
	}
	return false
}
