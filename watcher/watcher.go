package watcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Watcher asks one server, and the proxies in front of it. All its methods
// may be called by any goroutine.
type Watcher struct {
	cfg      Config
	server   *client
	status   *status
	wants    *wants
	snapshot atomic.Pointer[Snapshot]
	proxies  []*proxy
	telling  sync.Mutex // held by the proxy that publishes fronts
	fronts   atomic.Pointer[Fronts]
	ctx      context.Context // over when the watcher is closed
	cancel   context.CancelFunc
	running  sync.WaitGroup

	// Used by whoever holds the server's gate.
	own          session
	newServer    bool      // own is of a connection that has no snapshot yet
	starts       uint64    // Start of own's snapshots
	serial       uint64    // of the last snapshot
	failures     int       // polls in a row
	transportsAt time.Time // when transports were asked for last
	pauses       [details]pause
}

// Start checks the config and begins to watch, until ctx is over or Close. A
// server that cannot be reached is no error: State tells, and it is tried again
// after 1 s, 2 s, and so on up to every 30 s.
func Start(ctx context.Context, cfg Config) (*Watcher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Watcher{cfg: cfg, wants: newWants(), status: newStatus(cfg.String(), false, cfg.Log)}
	if w.server, err = newClient(cfg.Endpoint, cfg.Timeout); err != nil {
		return nil, err
	}
	w.server.hello = w.hello
	for i, p := range cfg.Proxies {
		one, err := newProxy(p, cfg, func(r proxyReadings) { w.tell(i, r) })
		if err != nil {
			return nil, err
		}
		w.proxies = append(w.proxies, one)
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.ctx = ctx
	w.running.Go(func() {
		repeat(ctx, w.wants.wake, w.poll)
		w.server.close()
	})
	for _, p := range w.proxies {
		w.running.Go(func() {
			repeat(ctx, nil, p.poll)
			p.client.close()
		})
	}
	return w, nil
}

// Close ends the watching and returns when the connections are closed.
func (w *Watcher) Close() {
	w.cancel()
	w.running.Wait()
}

// Snapshot is the last reading of the process list, nil before the first. It
// does not wait.
func (w *Watcher) Snapshot() *Snapshot { return w.snapshot.Load() }

// State tells whether the server is watched.
func (w *Watcher) State() State { return *w.status.state.Load() }

// States are the states of the server and then of the proxies.
func (w *Watcher) States() []State {
	all := []State{w.State()}
	for _, p := range w.proxies {
		all = append(all, *p.status.state.Load())
	}
	return all
}

// Want asks for one poll more on behalf of a connection that is not known, and
// for its Details. The poll comes 1 s after the first Want of a connection, and
// 2, 4, 10, 10… s after the last poll for each further one, or with a poll that
// is made anyway. A poll answers all Wants before it: who finds nothing in the
// new snapshot asks again. Want does not wait for the server; false means
// that too many connections are wanted.
func (w *Watcher) Want(p Peer) bool { return w.wants.ask(p, time.Now()) }

// Forget takes back Want, for a connection that has ended or was found out.
func (w *Watcher) Forget(p Peer) { w.wants.forget(p.Addr) }

// WantsRefused counts the calls of Want that returned false.
func (w *Watcher) WantsRefused() uint64 {
	w.wants.mu.Lock()
	defer w.wants.mu.Unlock()
	return w.wants.refused
}

// repeat calls step until ctx is over. step returns a function that tells when
// to call it next; a token in wake has it asked again.
func repeat(ctx context.Context, wake <-chan struct{}, step func(context.Context) func() time.Time) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for ctx.Err() == nil {
		next := step(ctx)
		for wait := time.Until(next()); wait > 0; wait = time.Until(next()) {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-wake:
			case <-timer.C:
			}
		}
	}
}

// backoff is the wait after the n-th failure in a row.
func backoff(n int) time.Duration {
	const most = 30 * time.Second
	return min(time.Second<<min(n-1, 5), most)
}

// at is a next for repeat.
func at(t time.Time) func() time.Time { return func() time.Time { return t } }
