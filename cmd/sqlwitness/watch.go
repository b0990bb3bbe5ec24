package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sqlwitness/watcher"
	"sqlwitness/worker"
)

// proxyConfig is the admin interface of a ProxySQL.
type proxyConfig struct {
	Address      string        `yaml:"address"`
	User         string        `yaml:"user"`
	PasswordFile string        `yaml:"password_file,omitempty"`
	PasswordEnv  string        `yaml:"password_env,omitempty"`
	TLS          string        `yaml:"tls,omitempty"`
	TLSCA        string        `yaml:"tls_ca,omitempty"`
	Interval     time.Duration `yaml:"interval,omitempty"` // 0 = 1 s
	Sticky       bool          `yaml:"sticky,omitempty"`
}

// validateProxies checks what the watcher cannot know.
func (w *watchConfig) validateProxies() error {
	const most = 16
	if len(w.Proxies) > 0 && w.User == "" {
		return errors.New("watch.proxies: they are asked only where the server is; set watch.user")
	}
	asked := map[string]bool{}
	for i, p := range w.Proxies {
		if asked[p.Address] { // two that tell of one connection name nobody
			return fmt.Errorf("watch.proxies[%d].address: %s is given twice", i, p.Address)
		}
		if asked[p.Address] = true; w.Socket == "" && p.Address == w.Address {
			return fmt.Errorf("watch.proxies[%d].address: %s is watch.address, the server's; name the proxy's admin interface", i, p.Address)
		}
		interval := p.Interval
		if interval == 0 {
			interval = watcher.DefaultProxyInterval
		}
		if 2*interval > w.IdentityWait {
			return fmt.Errorf("watch.proxies[%d].interval: %v is not allowed; events wait for the next reading for watch.identity_wait, %v, at the most: up to half of that", i, interval, w.IdentityWait)
		}
	}
	return inRange("watch.proxies: number of proxies", len(w.Proxies), 0, most)
}

// watcher is what to watch; nothing without a user.
func (c *config) watcher() watcher.Config {
	w := &c.Watch
	endpoint := watcher.Endpoint{Address: w.Address, Socket: w.Socket, User: w.User, PasswordFile: w.PasswordFile,
		PasswordEnv: w.PasswordEnv, TLS: w.TLS, TLSCA: w.TLSCA}
	if endpoint.Socket != "" {
		endpoint.Address = ""
	}
	out := watcher.Config{Endpoint: endpoint, Interval: w.Interval, Timeout: w.Timeout,
		Remember: 2*w.IdentityWait + time.Second} // for its user first, then for the proxy's client
	for _, p := range w.Proxies {
		out.Proxies = append(out.Proxies, watcher.ProxyConfig{Interval: p.Interval, Sticky: p.Sticky, Endpoint: watcher.Endpoint{
			Address: p.Address, User: p.User, PasswordFile: p.PasswordFile, PasswordEnv: p.PasswordEnv, TLS: p.TLS, TLSCA: p.TLSCA}})
	}
	return out
}

// checkWatch refuses what openWatcher would.
func (c *config) checkWatch() error {
	if c.Watch.User == "" {
		return nil
	}
	return usageOr(c.watcher().Check())
}

// openWatcher begins to watch the server, if an account is configured. A server
// or a proxy that is away is no error: its state is logged, once per change.
func (c *config) openWatcher(ctx context.Context, log *slog.Logger) (*watcher.Watcher, error) {
	if c.Watch.User == "" {
		return nil, nil
	}
	wc := c.watcher()
	wc.Log = func(s watcher.State) {
		what := "server"
		if s.Proxy {
			what = "proxy"
		}
		if s.Up {
			log.Info("the "+what+" is watched", what, s.Target)
		} else {
			log.Warn("the "+what+" is not watched", what, s.Target, "cause", string(s.Cause), "reason", s.Reason)
		}
	}
	started, err := watcher.Start(ctx, wc)
	return started, usageOr(err)
}

// watched adds the watcher to a shard's configuration.
func (c *config) watched(wc worker.Config, w *watcher.Watcher, shard int) worker.Config {
	if w == nil {
		return wc
	}
	wc.Watcher, wc.IdentityWait, wc.Sockets = w, c.Watch.IdentityWait, shard == 0
	if len(c.Watch.Proxies) > 0 {
		wc.Proxies = w
	}
	return wc
}

// proxyStates are the states of the proxies as a report has them: watched, or why not.
func proxyStates(w *watcher.Watcher) map[string]string {
	states := make(map[string]string)
	for _, s := range w.States() {
		if s.Proxy {
			states[s.Target] = string(s.Cause)
			if s.Up {
				states[s.Target] = "watched"
			}
		}
	}
	return states
}
