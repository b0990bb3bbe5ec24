package watcher

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// One visit tells what is worth knowing of a server and of the proxies, and leaves
// nothing open.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := healthy([]any{"9", "ann", "192.0.2.7:40000", "shop", "Query"}, []any{"10", "bob", "localhost", nil, "Sleep"})
		m.other = func(q string) (reply, bool) {
			switch {
			case strings.Contains(q, "CURRENT_USER"):
				return reply{columns: []string{"u"}, rows: [][]any{{"audit@10.%"}}}, true
			case strings.Contains(q, "'mysqlx_port'"):
				return reply{columns: []string{"n", "v"}, rows: [][]any{{"datadir", "/data/"}, {"socket", "/run/x.sock"}, {"extra_port", "0"},
					{"admin_port", "33062"}, {"admin_address", ""}, {"mysqlx_port", "33060"}, {"require_secure_transport", "ON"}}}, true
			}
			return reply{}, false
		}
		f := &fakeServer{answer: m.answer}
		up, down := &fakeServer{answer: (&fakeProxy{}).answer}, &fakeServer{refuse: true}
		cfg := Config{Endpoint: Endpoint{Address: "192.0.2.1:3306", User: "u", TLS: "off", dial: f.dial}, Timeout: time.Second,
			Proxies: []ProxyConfig{{Endpoint: Endpoint{Address: "10.0.0.2:6032", User: "admin", TLS: "off", dial: up.dial}},
				{Endpoint: Endpoint{Address: "10.0.0.3:6032", User: "admin", TLS: "off", dial: down.dial}}}}
		a, err := Ask(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Up || a.Account != "audit@10.%" || a.DataDir != "/data/" || a.Socket != "/run/x.sock" || !a.SecureTransport || a.NoDetails == "" {
			t.Errorf("%+v", a)
		}
		if len(a.Roles) != 1 || a.Roles[33060] != PortX {
			t.Errorf("roles %v: the admin port is open only with an address", a.Roles)
		}
		if a.Transports[TransportNetwork] != 1 || a.Transports[TransportSocket] != 1 {
			t.Errorf("transports %v", a.Transports)
		}
		if len(a.Proxies) != 2 || !a.Proxies[0].Up || a.Proxies[1].Cause != CauseUnreachable {
			t.Errorf("proxies %+v", a.Proxies)
		}
		f.running.Wait() // no connection is left
		up.running.Wait()

		m.process = false
		if a, err = Ask(t.Context(), cfg); err != nil || a.Cause != CauseProcessMissing || a.Account != "audit@10.%" {
			t.Errorf("without PROCESS: %+v, %v", a, err)
		}
		f.set(func() { f.mute = true })
		if a, err = Ask(t.Context(), cfg); err != nil || a.Cause != CauseTimeout || a.Server.Version != "" {
			t.Errorf("a server that hangs: %+v, %v", a, err)
		}
		cfg.Address = "nowhere"
		if _, err := Ask(t.Context(), cfg); err == nil {
			t.Error("a bad address was taken")
		}
	})
}
