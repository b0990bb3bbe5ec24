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
		if err != nil || c.Questions != 12 || c.AccessDeniedKnown || c.Socket.Known || c.EndNs-c.BeginNs < int64(100*time.Millisecond) || c.OwnConnectionID != 7 {
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

// A performance_schema that is too slow costs the details, not the list, and is
// left alone for a minute.
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
		time.Sleep(75 * time.Second)
		s := w.Snapshot()
		if s.EndNs < s.BeginNs {
			t.Errorf("the time is [%d, %d]", s.BeginNs, s.EndNs)
		}
		if one, ok := s.Find(addrOf("192.0.2.7:40000"), 0); !ok || one.User != "ann" || !strings.Contains(s.NoDetails, "left alone") {
			t.Errorf("%t %+v, %q", ok, one, s.NoDetails)
		}
		if n := len(f.times("SELECT THREAD_ID", start)); n != 2 {
			t.Errorf("asked %d times in 75 s", n)
		}
		w.Close()
		if len(log) != 1 || !log[0].Up {
			t.Errorf("logged %v", log)
		}
	})
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
		if one, ok := w.Snapshot().Find(addrOf("192.0.2.8:40000"), 0); !ok || one.Host != "app1" || one.UserKnown {
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
