//go:build linux

package proxies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/mariadb"
)

// program is the agent under test, built by TestMain.
var program string

func TestMain(m *testing.M) { os.Exit(agent.Main(m, agent.Path(&program))) }

// A scene is a server with a proxy before it, and an agent that came later.
type scene struct {
	proxy  *multiplexer
	admin  *admin
	agent  *agent.Agent
	events string // path
}

// starting is held by whoever starts a server.
var starting sync.Mutex

const password = "pw-Zq8mN4tV"

// startScene has so many connections between proxy and server. The agent's account
// at the server is account, which may not exist.
func startScene(t *testing.T, connections int, account string) *scene {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("capturing needs root")
	}
	if err := mariadb.Ensure(t.Context(), mariadb.Programs()...); err != nil {
		t.Fatal(err)
	}
	starting.Lock() // a start keeps a processor busy for a second
	defer starting.Unlock()
	srv, err := mariadb.Start(t.Context(), mariadb.Options{Users: []mariadb.User{{Name: "app"}, {Name: "watch", Password: password}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	s := &scene{events: filepath.Join(dir, "events.jsonl")}
	s.proxy = startMultiplexer(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(srv.Port)), "app", connections)
	s.admin = startAdmin(t, s.proxy.processlist)
	out, err := os.Create(s.events)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s.agent, err = agent.Start(t.Context(), out, program, "run", "-c", writeConfig(t, dir, srv.Port, account, s.admin.address()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.agent.Stop() })
	return s
}

func writeConfig(t *testing.T, dir string, port int, account, admin string) string {
	t.Helper()
	file, config := filepath.Join(dir, "password"), filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("capture: {interfaces: [lo], ports: [%d]}\nmask: off\nevents: {output: json}\nwatch:\n"+
		"  {address: '127.0.0.1:%d', user: %s, password_file: %s, interval: 1s, timeout: 6s,\n"+
		"   proxies: [{address: '%s', user: stats, password_file: %s, interval: 100ms}]}\n", port, port, account, file, admin, file)
	if err := errors.Join(os.WriteFile(file, []byte(password+"\n"), 0o600), os.WriteFile(config, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return config
}

// An event is what these tests read of one.
type event struct {
	Type       string `json:"type"`
	SQL        string `json:"sql"`
	User       string `json:"user"`
	UserSource string `json:"user_source"`
	ClientIP   string `json:"client_ip"`
	ClientPort uint16 `json:"client_port"`
	ProxyIP    string `json:"proxy_ip"`
	ProxyPort  uint16 `json:"proxy_port"`
	Seq        uint64 `json:"seq"`
	SessionSeq uint64 `json:"session_seq"`
	Session    string `json:"session"`
}

func (e *event) client() netip.AddrPort {
	ip, err := netip.ParseAddr(e.ClientIP)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, e.ClientPort)
}

// signed are the signed commands among the events so far.
func (s *scene) signed(t *testing.T) (all []event) {
	t.Helper()
	text, err := os.ReadFile(s.events)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e event
		if line[len(line)-1] != '\n' {
			break
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %.200s", err, line)
		}
		if _, ok := signature(e.SQL); ok && e.Type == "command" {
			all = append(all, e)
		}
	}
	return all
}

// states are what the agent logged of the proxy: "up", or the cause.
func (s *scene) states() (out []string) {
	for line := range strings.Lines(s.agent.Stderr()) {
		switch {
		case strings.Contains(line, `msg="the proxy is watched"`):
			out = append(out, "up")
		case strings.Contains(line, `msg="the proxy is not watched"`):
			_, cause, _ := strings.Cut(line, " cause=")
			cause, _, _ = strings.Cut(cause, " ")
			out = append(out, cause)
		}
	}
	return out
}

// state is the last of the states.
func (s *scene) state() string {
	all := s.states()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// polled tells whether there were n polls since another count of them; it gives up
// after a time in which an admin interface that answers was asked as often on any machine.
func polled(m *multiplexer, since, n int64, began time.Time) bool {
	return m.polls.Load() >= since+n || time.Since(began) > 10*time.Second
}

// work sends n signed statements from a client of the proxy. Now and then they are
// parts of a transaction that takes longer than two polls.
func work(m *multiplexer, from string, n int, stick bool, pause time.Duration) error {
	c, err := m.dial(from)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	if stick {
		if err := c.do("stick"); err != nil {
			return err
		}
	}
	for i := 0; i < n; {
		if stick || rand.IntN(200) > 0 {
			if err := c.do(c.signed(i)); err != nil {
				return err
			}
			i++
			time.Sleep(time.Duration(rand.Int64N(int64(pause))))
			continue
		}
		if err := c.do("BEGIN"); err != nil {
			return err
		}
		for began, since := time.Now(), m.polls.Load(); i < n && !polled(m, since, 4, began); i++ {
			if err := c.do(c.signed(i)); err != nil {
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
		if err := c.do("COMMIT"); err != nil {
			return err
		}
	}
	return nil
}

// workAll has several clients at work at the same time.
func workAll(t *testing.T, m *multiplexer, clients, each int, stick bool, pause time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, clients)
	for i := range clients {
		all.Go(func() { errs[i] = work(m, fmt.Sprintf("127.0.%d.%d", 1+i/200, 2+i%200), each, stick, pause) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A tally is what became of signed commands.
type tally struct{ right, unknown, peer, wrong int }

// judge compares each client that is told with the signature. Where no client of
// the proxy is told, it must be absent, or the TCP peer of a connection that the
// proxy was not yet known to own.
func judge(t *testing.T, events []event) (n tally) {
	t.Helper()
	for i := range events {
		e := &events[i]
		who, _ := signature(e.SQL)
		switch is := e.client(); {
		case is == who && e.ProxyIP == "127.0.0.1" && e.ProxyPort != 0:
			n.right++
		case !is.IsValid() && e.ProxyIP == "127.0.0.1" && e.ProxyPort != 0:
			n.unknown++
		case is.Addr() == netip.MustParseAddr("127.0.0.1") && e.ProxyIP == "":
			n.peer++
		default:
			if n.wrong++; n.wrong <= 5 {
				t.Errorf("%q is said to be of %v by %s:%d", e.SQL, is, e.ProxyIP, e.ProxyPort)
			}
		}
	}
	return n
}

// inOrder tells whether each connection's commands are in their order.
func inOrder(t *testing.T, events []event) {
	t.Helper()
	last := map[string]uint64{}
	for _, e := range events {
		if e.SessionSeq <= last[e.Session] {
			t.Fatalf("command %d of session %s comes behind command %d", e.SessionSeq, e.Session, last[e.Session])
		}
		last[e.Session] = e.SessionSeq
	}
}

// warm has clients at work until the agent has seen that the proxy owns each of its
// connections, and returns how many statements they sent.
func (s *scene) warm(t *testing.T, connections int) (sent int) {
	t.Helper()
	known := map[uint16]bool{}
	for end := time.Now().Add(40 * time.Second); len(known) < connections; {
		if time.Now().After(end) {
			t.Fatalf("of %d connections %d are known to be the proxy's", connections, len(known))
		}
		workAll(t, s.proxy, connections, 4, true, 100*time.Millisecond)
		sent += connections * 4
		for _, e := range s.signed(t) {
			if e.ProxyPort != 0 {
				known[e.ProxyPort] = true
			}
		}
	}
	return sent
}

// A multiplexing proxy lends a connection to many clients between two polls, and
// often to the same one at both. Nobody is said to have sent what another did; who
// holds a connection for longer, for a transaction, is named.
func TestMultiplexing(t *testing.T) {
	t.Parallel()
	s := startScene(t, 6, "watch")
	warm := s.warm(t, 6)
	const clients, each = 16, 1300
	workAll(t, s.proxy, clients, each, false, 4*time.Millisecond)
	time.Sleep(300 * time.Millisecond)
	if err := s.agent.Stop(); err != nil {
		t.Fatal(err)
	}
	events := s.signed(t)
	n := judge(t, events)
	inOrder(t, events)
	t.Logf("of %d statements: %+v", len(events), n)
	if len(events) != warm+clients*each {
		t.Errorf("%d statements have an event, want %d", len(events), warm+clients*each)
	}
	if n.wrong > 0 || n.right < 200 || n.peer > warm {
		t.Errorf("%+v, want none wrong, those of transactions right, and no peer but from before the proxy's connections were seen", n)
	}
	if got := s.states(); fmt.Sprint(got) != "[up]" {
		t.Errorf("states %v", got)
	}
}

// Clients that keep their connections are named on most of their statements. The
// agent cannot log in at the server, so that the users of these connections, which
// are older than it, come from the proxy, too.
func TestSticky(t *testing.T) {
	t.Parallel()
	s := startScene(t, 8, "nobody")
	const clients, each = 8, 300
	workAll(t, s.proxy, clients, each, true, 20*time.Millisecond)
	time.Sleep(300 * time.Millisecond)
	if err := s.agent.Stop(); err != nil {
		t.Fatal(err)
	}
	events := s.signed(t)
	n := judge(t, events)
	inOrder(t, events)
	t.Logf("of %d statements: %+v", len(events), n)
	if len(events) != clients*each || n.wrong > 0 || n.right < len(events)*8/10 {
		t.Errorf("of %d statements %+v, want most of %d right", len(events), n, clients*each)
	}
	for _, e := range events {
		if who := e.User + " from " + e.UserSource; e.client().Addr() != netip.MustParseAddr("127.0.0.1") && e.ClientIP != "" && who != "front_user from proxy" {
			t.Fatalf("%q is of %s", e.SQL, who)
		}
	}
}

// Whatever becomes of the admin interface, everything is captured, no client is
// told that is not known, and each change is said once.
func TestAdminFails(t *testing.T) {
	t.Parallel()
	s := startScene(t, 2, "watch")
	sent := 0
	for _, step := range []struct {
		mood  int32
		state string
	}{
		{answers, "up"}, {hangs, "timeout"}, {answers, "up"}, {refuses, "login_refused"}, {answers, "up"},
		{lacks, "query_failed"}, {answers, "up"}, {disowned, "not_extended"}, {answers, "up"},
	} {
		s.admin.mood.Store(step.mood)
		if step.mood == refuses {
			s.admin.dropAll()
		}
		before, names := len(s.states()), 0
		workAll(t, s.proxy, 2, 20, true, 20*time.Millisecond)
		sent += 40
		changes := 1
		if step.mood == refuses {
			changes = 2 // the connection is lost first
		}
		for end := time.Now().Add(40 * time.Second); s.state() != step.state && time.Now().Before(end); sent += 2 {
			workAll(t, s.proxy, 2, 1, true, 20*time.Millisecond)
		}
		if got := s.states(); s.state() != step.state || len(got) > before+changes {
			t.Fatalf("after %v: the agent said %v, want %s once more\n%s", step, got, step.state, s.agent.Stderr())
		}
		if step.state == "up" {
			continue
		}
		// What a reading from before the change has named may not be written yet.
		for end := time.Now().Add(40 * time.Second); len(s.signed(t)) < sent && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		from := len(s.signed(t))
		workAll(t, s.proxy, 2, 20, true, 20*time.Millisecond)
		sent += 40
		time.Sleep(200 * time.Millisecond)
		late := s.signed(t)
		for _, e := range late[min(from+4, len(late)):] {
			if who, _ := signature(e.SQL); e.client() == who {
				names++
			}
		}
		if names > 0 {
			t.Errorf("%s: %d commands have a client", step.state, names)
		}
	}
	time.Sleep(300 * time.Millisecond)
	if err := s.agent.Stop(); err != nil {
		t.Fatal(err)
	}
	events := s.signed(t)
	if n := judge(t, events); len(events) != sent || n.wrong > 0 || n.right == 0 {
		t.Errorf("of %d statements %d have an event: %+v", sent, len(events), n)
	}
	if strings.Contains(s.agent.Stderr(), password) {
		t.Error("the agent tells a password")
	}
}
