package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"sqlwitness/watcher"
)

// watchCures say what helps against each cause.
var watchCures = map[watcher.Cause]string{
	watcher.CauseUnreachable: "is the server up, and watch.address (watch.socket) its own?",
	watcher.CauseTimeout:     "the server does not answer within watch.timeout: is it overloaded or stopped?",
	watcher.CausePassword:    "watch.password_file must hold the password on one line, and be readable",
	watcher.CauseLogin:       "check user and password; ALTER USER … IDENTIFIED BY … ACCOUNT UNLOCK",
	watcher.CauseHost:        "CREATE USER for this host; FLUSH HOSTS if it was blocked",
	watcher.CauseConnections: "raise max_connections, or give the account a place (max_user_connections)",
	watcher.CauseTLS:         "watch.tls and watch.tls_ca must fit the server's certificate",
	watcher.CauseQuery:       "the account's rights and the server's log tell more",
}

// proxyCures say what helps at a proxy's admin interface; a reason may hold its cure.
var proxyCures = map[watcher.Cause]string{
	watcher.CauseUnreachable: "is the proxy up, and the address in watch.proxies its admin interface?",
	watcher.CauseTimeout:     "the proxy does not answer within watch.timeout",
	watcher.CausePassword:    "password_file must hold the password on one line, and be readable",
	watcher.CauseLogin:       "an account of admin-stats_credentials, which it takes from this host",
	watcher.CauseQuery:       "is it a ProxySQL, and the account one of its admin interface?",
}

// checkWatcher asks the server as the agent would.
func (d *doctor) checkWatcher(ctx context.Context) watcher.Answer {
	const name = "watcher"
	c := d.config
	if c.Watch.User == "" {
		d.say(gradeWarn, name, "no account is configured: connections older than the agent have no user, and losses are not compared with the server's count",
			"watch.user and watch.password_file, an account with PROCESS")
		return watcher.Answer{}
	}
	answer, err := watcher.Ask(ctx, c.watcher())
	if err != nil {
		d.say(gradeDown, name, err.Error(), "")
		return watcher.Answer{}
	}
	for _, p := range answer.Proxies {
		if p.Up {
			d.ok("proxy", "%s answers", p.Target)
		} else {
			d.say(gradeDown, "proxy", fmt.Sprintf("%s: %s: %s", p.Target, p.Cause, p.Reason), proxyCures[p.Cause])
		}
	}
	switch {
	case answer.Cause == watcher.CauseProcessMissing:
		d.say(gradeDown, name, answer.Target+": the account lacks PROCESS, so it sees its own connections only: older ones have no user, and none is known to have ended",
			"GRANT PROCESS ON *.* TO "+grantee(answer.Account))
	case !answer.Up:
		d.say(gradeDown, name, fmt.Sprintf("%s: %s: %s", answer.Target, answer.Cause, answer.Reason), watchCures[answer.Cause])
		return answer
	default:
		d.ok(name, "%s: %s %s, %s sees all sessions", answer.Target, answer.Server.Flavour, answer.Server.Version, answer.Account)
	}
	d.checkSchema(&answer)
	d.checkTransports(&answer)
	return answer
}

// localDataDir is the watched server's data directory, if the server is on this
// machine.
func (d *doctor) localDataDir(a watcher.Answer) string {
	host, _, _ := net.SplitHostPort(d.config.Watch.Address)
	ip := net.ParseIP(host)
	if d.config.Watch.Socket != "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return a.DataDir
	}
	return ""
}

// grantee quotes an account as a statement needs it.
func grantee(account string) string {
	at := strings.LastIndexByte(account, '@')
	if at < 0 {
		return "the account"
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return quote(account[:at]) + "@" + quote(account[at+1:])
}

// checkSchema says what is missing without performance_schema.
func (d *doctor) checkSchema(a *watcher.Answer) {
	const name = "performance_schema"
	const lost = "texts of statements that were prepared before the agent came, attributes of older connections, and the part of Questions that came over unix sockets are not known"
	switch {
	case !a.Server.PerformanceSchema:
		d.say(gradeWarn, name, "off: "+lost, "performance_schema=ON in the server's configuration, and a restart")
	case a.NoDetails != "":
		d.say(gradeWarn, name, a.NoDetails+": "+lost, "GRANT SELECT ON performance_schema.* TO "+grantee(a.Account))
	default:
		d.ok(name, "on, and readable")
	}
}

// checkTransports says what part of the sessions is out of sight.
func (d *doctor) checkTransports(a *watcher.Answer) {
	const name = "sessions"
	all := 0
	for _, n := range a.Transports {
		all += n
	}
	hidden, unknown := a.Transports[watcher.TransportTLS], a.Transports[watcher.TransportNetwork]
	const cure = "capture where the traffic is not encrypted, or let clients connect with TLS disabled"
	switch {
	case hidden > 0:
		d.say(gradeWarn, name, fmt.Sprintf("%d of %d use TLS: their commands cannot be read", hidden, all), cure)
	case a.SecureTransport:
		d.say(gradeWarn, name, "require_secure_transport is on: the commands of clients over TCP cannot be read", cure)
	case unknown > 0:
		d.ok(name, "%d, of which %d come over the network; whether with TLS only performance_schema tells", all, unknown)
	default:
		d.ok(name, "%d, none with TLS", all)
	}
}
