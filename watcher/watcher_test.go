package watcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A bad config is refused at the start, and the key is named.
func TestConfigRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "two")
	os.WriteFile(file, []byte("a\nb\n"), 0o600)
	good := Endpoint{Address: "192.0.2.1:3306", User: "u"}
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"address or socket", func(c *Config) { c.Address = "" }},
		{"address or socket", func(c *Config) { c.Socket = "/s" }},
		{"watch.address", func(c *Config) { c.Address = "db1" }},
		{"watch.address", func(c *Config) { c.Address = ":3306" }},
		{"watch.user", func(c *Config) { c.User = "" }},
		{"both", func(c *Config) { c.PasswordFile, c.PasswordEnv = "f", "E" }},
		{"watch.password_env", func(c *Config) { c.PasswordEnv = "SQLWITNESS_NO_SUCH" }},
		{"watch.password_file", func(c *Config) { c.PasswordFile = "/no/such/file" }},
		{"more than one line", func(c *Config) { c.PasswordFile = file }},
		{"watch.tls is", func(c *Config) { c.TLS = "maybe" }},
		{"watch.tls_ca", func(c *Config) { c.TLSCA = "/no/such/file" }},
		{"watch.tls_ca", func(c *Config) { c.TLS, c.TLSCA = "verify", "/no/such/file" }},
		{"no certificate", func(c *Config) { c.TLS, c.TLSCA = "verify", file }},
		{"a socket has none", func(c *Config) { c.Address, c.Socket, c.TLS = "", "/s", "required" }},
		{"watch.interval", func(c *Config) { c.Interval = time.Millisecond }},
		{"watch.timeout", func(c *Config) { c.Timeout = time.Hour }},
		{"watch.proxies[1].user", func(c *Config) { c.Proxies = []ProxyConfig{{Endpoint: good}, {Endpoint: Endpoint{Socket: "/s"}}} }},
		{"watch.proxies[0].interval", func(c *Config) { c.Proxies = []ProxyConfig{{Endpoint: good, Interval: time.Hour}} }},
	} {
		cfg := Config{Endpoint: good}
		c.change(&cfg)
		w, err := Start(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.want, err)
		}
		if err == nil {
			w.Close()
		}
	}
}

func TestTLSDefault(t *testing.T) {
	for _, c := range []struct {
		e    Endpoint
		want string
	}{
		{Endpoint{Address: "127.0.0.1:3306"}, "false"}, {Endpoint{Address: "[::1]:3306"}, "false"},
		{Endpoint{Address: "localhost:3306"}, "false"}, {Endpoint{Socket: "/s"}, "false"},
		{Endpoint{Address: "192.0.2.1:3306"}, "preferred"}, {Endpoint{Address: "db1:3306", TLS: "off"}, "false"},
		{Endpoint{Address: "127.0.0.1:3306", TLS: "verify"}, "true"}, {Endpoint{Address: "127.0.0.1:3306", TLS: "required"}, "skip-verify"},
	} {
		if mode, err := c.e.tls(); err != nil || mode.name != c.want {
			t.Errorf("%+v: %q %v, want %q", c.e, mode.name, err, c.want)
		}
	}
}

// A server that is away, mute, and back: tried after 1, 2, 4, 8, 16, 30, 30 s,
// logged once each, one question at a time, and the password nowhere, not even
// where the server says it.
func TestStates(t *testing.T) {
	const secret = "hunter2-hunter2"
	t.Setenv("SQLWITNESS_TEST_PASSWORD", secret)
	synctest.Test(t, func(t *testing.T) {
		m := healthy()
		f := &fakeServer{answer: m.answer, refuse: true}
		var log []State
		start := time.Now()
		cfg := Config{Endpoint: Endpoint{PasswordEnv: "SQLWITNESS_TEST_PASSWORD"}, Timeout: 2 * time.Second, Log: func(s State) { log = append(log, s) }}
		if s := fmt.Sprintf("%+v %v %#v", cfg, cfg, cfg); strings.Contains(s, secret) {
			t.Error("the config holds the password")
		}
		w := watchFake(t, f, cfg)
		if s := *newStatus("x", false, nil).state.Load(); s.Up || s.Cause != CauseStarting || w.State().Target != "192.0.2.1:3306" {
			t.Errorf("at the start: %+v, %+v", s, w.State())
		}
		time.Sleep(100 * time.Second)
		checkState(t, w, CauseUnreachable, start)
		f.set(func() { f.refuse = false })
		time.Sleep(30 * time.Second)
		checkState(t, w, "", start.Add(121*time.Second)) // 1+2+4+8+16+30+30+30
		f.set(func() { f.mute = true })
		time.Sleep(15 * time.Second) // the poll at 131 s, until 133
		checkState(t, w, CauseTimeout, start.Add(133*time.Second))
		f.set(func() { f.mute = false })
		time.Sleep(20 * time.Second)
		checkState(t, w, "", time.Time{})
		f.set(func() {
			m.other = func(q string) (reply, bool) {
				return reply{code: 1105, text: "you said " + secret}, q == fromShow
			}
		})
		for w.State().Up {
			time.Sleep(10 * time.Millisecond)
		}
		checkState(t, w, CauseQuery, time.Time{})
		if _, err := w.Counters(t.Context()); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("counters: %v", err)
		}
		f.set(func() { m.other = nil })
		time.Sleep(1100 * time.Millisecond) // the wait begins at 1 s anew
		checkState(t, w, "", time.Time{})
		w.Close()
		w.Close()
		var causes []Cause
		for _, s := range log {
			causes = append(causes, s.Cause)
			if text := fmt.Sprintf("%v %+v", s, s); strings.Contains(text, secret) || s.Cause == CauseQuery && !strings.Contains(text, "you said ***") {
				t.Errorf("logged %q", text)
			}
		}
		if want := []Cause{CauseUnreachable, "", CauseTimeout, "", CauseQuery, ""}; !slices.Equal(causes, want) {
			t.Errorf("logged %q, want %q", causes, want)
		}
		if n := f.most.Load(); n != 1 {
			t.Errorf("%d questions at the same time", n)
		}
		if _, err := w.Counters(context.Background()); err == nil {
			t.Error("a closed watcher counts")
		}
	})
}

func checkState(t *testing.T, w *Watcher, cause Cause, since time.Time) {
	t.Helper()
	s := w.State()
	if s.Cause != cause || s.Up != (cause == "") || (s.Reason == "") != s.Up {
		t.Errorf("state %+v, want %q", s, cause)
	}
	if !since.IsZero() && s.Since.Sub(since).Abs() > 100*time.Millisecond {
		t.Errorf("%q since %v, want %v", cause, s.Since, since)
	}
}

// A server that ends the connection in answer to a question, because it was killed or
// the server shuts down, is unreachable, as it is for a connection that ends between
// two questions; the next try logs in.
func TestEndedInAnswer(t *testing.T) {
	for _, code := range []uint16{1053, 1927} {
		synctest.Test(t, func(t *testing.T) {
			m := healthy()
			m.other = func(q string) (reply, bool) { return reply{code: code, text: "killed"}, q == fromShow }
			f := &fakeServer{answer: m.answer}
			w := watchFake(t, f, Config{})
			synctest.Wait()
			checkState(t, w, CauseUnreachable, time.Time{})
			f.set(func() { m.other = nil })
			time.Sleep(1100 * time.Millisecond)
			checkState(t, w, "", time.Time{})
			if f.logins != 2 {
				t.Errorf("error %d: %d logins", code, f.logins)
			}
			w.Close()
		})
	}
}

// A poll and the counters do not meet at the server; who asks for counters while
// a poll hangs waits no longer than one time-out; Close waits for neither.
func TestOneQuestionAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := healthy()
		m.other = func(q string) (reply, bool) {
			if strings.HasPrefix(q, "SHOW GLOBAL STATUS WHERE") {
				return reply{columns: []string{"n", "v"}, rows: [][]any{{"Questions", "12"}}, after: 100 * time.Millisecond}, true
			}
			return reply{}, false
		}
		f := &fakeServer{answer: m.answer}
		w := watchFake(t, f, Config{Interval: time.Second, Timeout: 3 * time.Second})
		synctest.Wait()
		for range 20 {
			go w.Counters(t.Context())
		}
		time.Sleep(3 * time.Second)
		c, err := w.Counters(t.Context())
		if err != nil || c.Questions != 12 || c.AccessDeniedKnown || c.Socket.Known || c.EndNs-c.BeginNs < int64(100*time.Millisecond) || c.OwnConnectionID != 7 ||
			c.Hostname != "db1" || c.Port != 3306 {
			t.Errorf("%+v, %v", c, err)
		}
		if n := f.most.Load(); n != 1 {
			t.Errorf("%d questions at the same time", n)
		}
		f.set(func() { f.mute = true })
		time.Sleep(1500 * time.Millisecond) // a poll hangs now
		began := time.Now()
		if _, err := w.Counters(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		f.set(func() { f.mute = false })
		time.Sleep(time.Minute)
		f.set(func() { f.mute = true })
		go w.Counters(t.Context())
		time.Sleep(time.Millisecond)
		began = time.Now()
		w.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("Close took %v", took)
		}
		f.running.Wait()
	})
}

// A performance_schema that is too slow costs the details, not the list. It is asked
// ever less often, and in the end not waited for.
func TestSlowDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := healthy([]any{"9", "ann", "192.0.2.7:40000", "shop", "Sleep"})
		m.schema = "ON"
		m.other = func(q string) (reply, bool) {
			return reply{hang: true}, strings.HasPrefix(q, "SELECT THREAD_ID")
		}
		f := &fakeServer{answer: m.answer}
		var log []State
		w := watchFake(t, f, Config{Timeout: time.Second, Log: func(s State) { log = append(log, s) }})
		start := time.Now()
		for _, c := range []struct {
			at    time.Duration
			asked int
			given bool
		}{{5 * time.Second, 1, false}, {25 * time.Second, 2, false}, {65 * time.Second, 3, true}, {125 * time.Second, 4, true}, {300 * time.Second, 7, true}} {
			time.Sleep(c.at - time.Since(start))
			s := w.Snapshot()
			if one, ok := s.Find(Peer{Addr: addrOf("192.0.2.7:40000")}); !ok || one.User != "ann" || one.Details != nil || s.EndNs < s.BeginNs {
				t.Errorf("after %v: %t %+v, [%d, %d]", c.at, ok, one, s.BeginNs, s.EndNs)
			}
			if got := strings.Contains(s.NoDetails, "threads is too slow"); got != c.given || !c.given && s.NoDetails != "" {
				t.Errorf("after %v: %q", c.at, s.NoDetails)
			}
			if n := len(f.times("SELECT THREAD_ID", start)); n != c.asked {
				t.Errorf("asked %d times in %v, want %d", n, c.at, c.asked)
			}
		}
		f.set(func() { m.other = nil })
		time.Sleep(70 * time.Second)
		if s := w.Snapshot(); s.NoDetails != "" {
			t.Errorf("recovered, and still %q", s.NoDetails)
		}
		w.Close()
		if len(log) != 1 || !log[0].Up {
			t.Errorf("logged %v", log)
		}
	})
}

// One slow question costs only its own answer, and what was read before stays.
func TestSlowStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := healthy([]any{"9", "ann", "192.0.2.7:40000", "shop", "Query"})
		m.schema = "ON"
		var slow time.Duration
		m.other = func(q string) (reply, bool) {
			switch {
			case strings.HasPrefix(q, "SELECT THREAD_ID"):
				return reply{columns: []string{"a", "b", "c", "d"}, rows: [][]any{{"70", "9", "ann", "TCP/IP"}}}, true
			case strings.HasPrefix(q, "SELECT PROCESSLIST_ID"):
				return reply{columns: []string{"a", "b", "c"}, rows: [][]any{{"9", "program_name", "shop"}}}, true
			case strings.HasPrefix(q, "SELECT OWNER_THREAD_ID"):
				return reply{columns: []string{"a", "b", "c"}, rows: [][]any{{"70", "1", "DO 1"}}, after: slow}, true
			}
			return reply{}, false
		}
		f := &fakeServer{answer: m.answer}
		w := watchFake(t, f, Config{Timeout: time.Second})
		client := addrOf("192.0.2.7:40000")
		see := func(what string, missing bool, statements int) {
			t.Helper()
			w.Want(Peer{Addr: client, ConnectionID: 9})
			time.Sleep(4 * time.Second)
			one, _ := w.Snapshot().Find(Peer{Addr: client, ConnectionID: 9})
			if one == nil || one.Details == nil || one.Details.User != "ann" || one.Details.Program != "shop" ||
				one.Details.Missing != missing || len(one.Details.Statements) != statements || w.Snapshot().NoDetails != "" {
				t.Errorf("%s: %+v %+v, %q", what, one, one.Details, w.Snapshot().NoDetails)
			}
		}
		f.set(func() { slow = 2 * time.Second })
		see("too slow", true, 0)
		n := len(f.times("SELECT OWNER_THREAD_ID", time.Now()))
		see("left alone", true, 0)
		if got := len(f.times("SELECT OWNER_THREAD_ID", time.Now())); got != n {
			t.Errorf("asked again after %d times", n)
		}
		f.set(func() { slow = 0 })
		time.Sleep(10 * time.Second)
		see("well again", false, 1)
		f.set(func() { slow = 2 * time.Second })
		see("known from before", false, 1)
		w.Close()
	})
}

// A question takes a tenth of the time at most; failures double the wait, up to a
// minute.
func TestPause(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pause
	waits := func() time.Duration { return p.until.Sub(now) }
	if !p.over(now) {
		t.Error("a question that was never asked has to wait")
	}
	for _, c := range []struct {
		failed     bool
		took, want time.Duration
	}{{false, 5 * time.Millisecond, 45 * time.Millisecond}, {false, time.Second, 9 * time.Second}, {true, 2 * time.Second, 18 * time.Second},
		{true, 2 * time.Second, 36 * time.Second}, {true, 2 * time.Second, time.Minute}, {true, 2 * time.Second, time.Minute},
		{true, 10 * time.Second, 90 * time.Second}, {false, time.Second, 9 * time.Second}, {true, time.Second, 9 * time.Second}} {
		if c.failed {
			p.failed(now, c.took, "slow")
		} else {
			p.answered(now, c.took)
		}
		if waits() != c.want || p.over(now.Add(c.want-1)) || !p.over(now.Add(c.want)) {
			t.Errorf("%+v: waits %v", c, waits())
		}
	}
}

// A server that was started anew gives the same ids to others.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := healthy([]any{"9", "ann", "192.0.2.7:40000", "shop", "Sleep"})
		f := &fakeServer{answer: m.answer}
		w := watchFake(t, f, Config{Interval: time.Second, Timeout: time.Second})
		time.Sleep(1500 * time.Millisecond)
		f.set(func() { f.mute = true })
		time.Sleep(3 * time.Second)
		f.set(func() {
			f.mute = false
			m.list = [][]any{{"9", "bob", "app1:40000", nil, "Query"}}
		})
		time.Sleep(10 * time.Second)
		if one, ok := w.Snapshot().Find(Peer{Addr: addrOf("192.0.2.8:40000")}); !ok || one.Host != "app1" || one.UserKnown {
			t.Errorf("%t %+v", ok, one)
		}
		w.Close()
	})
}

// PROCESS that is granted between the list and the question for it does not
// make the list complete.
func TestGrantedInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := healthy([]any{"9", "ann", "192.0.2.7:40000", "shop", "Sleep"})
		m.process = false
		m.other = func(q string) (reply, bool) {
			m.process = m.process || q == fromShow
			return reply{}, false
		}
		f := &fakeServer{answer: m.answer}
		w := watchFake(t, f, Config{})
		synctest.Wait()
		if s := w.Snapshot(); s.Complete || w.State().Cause != CauseProcessMissing {
			t.Errorf("complete %t, %v", s.Complete, w.State())
		}
		time.Sleep(5 * time.Second)
		if s := w.Snapshot(); !s.Complete || f.logins != 2 {
			t.Errorf("complete %t after %d logins", s.Complete, f.logins)
		}
		w.Close()
	})
}
