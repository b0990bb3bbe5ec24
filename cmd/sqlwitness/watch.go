package main

import (
	"context"
	"log/slog"

	"sqlwitness/watcher"
	"sqlwitness/worker"
)

// openWatcher begins to watch the server, if an account is configured. A server
// that is away is no error: its state is logged, once per change.
func (c *config) openWatcher(ctx context.Context, log *slog.Logger) (*watcher.Watcher, error) {
	w := &c.Watch
	if w.User == "" {
		return nil, nil
	}
	endpoint := watcher.Endpoint{Address: w.Address, Socket: w.Socket, User: w.User, PasswordFile: w.PasswordFile,
		PasswordEnv: w.PasswordEnv, TLS: w.TLS, TLSCA: w.TLSCA}
	if endpoint.Socket != "" {
		endpoint.Address = ""
	}
	started, err := watcher.Start(ctx, watcher.Config{Endpoint: endpoint, Interval: w.Interval, Timeout: w.Timeout,
		Log: func(s watcher.State) {
			if s.Up {
				log.Info("the server is watched", "server", s.Target)
			} else {
				log.Warn("the server is not watched", "server", s.Target, "cause", string(s.Cause), "reason", s.Reason)
			}
		}})
	return started, usageOr(err)
}

// watched adds the watcher to a shard's configuration.
func (c *config) watched(wc worker.Config, w *watcher.Watcher, shard int) worker.Config {
	if w != nil {
		wc.Watcher, wc.IdentityWait, wc.Sockets = w, c.Watch.IdentityWait, shard == 0
	}
	return wc
}
