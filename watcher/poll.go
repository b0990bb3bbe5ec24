package watcher

import (
	"cmp"
	"context"
	"database/sql"
	"strconv"
	"time"
)

// poll makes one snapshot and sets the state. It is a step of repeat.
func (w *Watcher) poll(ctx context.Context) func() time.Time {
	began := time.Now()
	asked := w.wants.asked()
	err := w.server.ask(ctx, func(ctx context.Context) error { return w.read(ctx, asked) })
	complete := err == nil && w.snapshot.Load().Complete
	if ctx.Err() != nil {
		return at(began)
	}
	w.status.set(w.judge(err))
	if !complete {
		w.failures++
		return at(time.Now().Add(backoff(w.failures)))
	}
	w.failures = 0
	regular := began.Add(w.cfg.Interval)
	return func() time.Time {
		if due := w.wants.due(); !due.IsZero() && due.Before(regular) {
			return due
		}
		return regular
	}
}

// read makes and publishes one snapshot.
func (w *Watcher) read(ctx context.Context, asked []Peer) error {
	began := time.Now()
	s := &Snapshot{BeginNs: began.UnixNano(), Server: w.own.info, Start: w.starts}
	w.place(&s.Server)
	rows, err := w.list(ctx)
	if err != nil {
		return err
	}
	s.rows = rows
	if err := w.readProxyNetworks(ctx); err != nil {
		return err
	}
	s.Server.ProxyNetworks = w.own.info.ProxyNetworks
	before := w.own.process
	if w.own.process, err = w.hasProcess(ctx); err != nil {
		return err
	}
	// A privilege that came in between does not tell of the list.
	s.Complete = before && w.own.process
	if earlier := w.snapshot.Load(); earlier != nil && !w.newServer {
		s.inherit(earlier)
	}
	s.index()
	if own, ok := s.byID[w.own.id]; ok && s.rows[own].login {
		s.ownUnknown, s.Complete = true, false
	}
	found := s.rowsOf(asked)
	if err := w.readDetails(ctx, s, found); err != nil {
		w.server.drop() // the list is good all the same
	}
	s.BeginNs, s.EndNs = span(began, time.Now())
	s.NoDetails = cmp.Or(w.own.details, w.tooSlow())
	w.serial++
	s.Serial = w.serial
	w.newServer = w.server.conn == nil
	w.snapshot.Store(s)
	w.wants.polled(asked, len(found) > 0, began)
	if !s.Complete {
		w.server.leave() // a privilege that is granted now counts from the next login on
	}
	return nil
}

// span is the time of a reading in the machine's clock as it is at its end. Had the
// clock been set back meanwhile, the beginning as it was read would say that the list
// is of later than what it does not show yet.
func span(began, ended time.Time) (beginNs, endNs int64) {
	endNs = ended.UnixNano()
	return endNs - int64(ended.Sub(began)), endNs
}

// place tells where the server is. Addresses of this machine may come and go.
func (w *Watcher) place(info *ServerInfo) {
	if peer := w.server.peer.Load(); peer != nil {
		info.At = *peer
	}
	if w.server.local.Load() {
		info.Here = here()
	}
}

// list reads the process list from where this server has it best.
func (w *Watcher) list(ctx context.Context) ([]Session, error) {
	if !w.own.list {
		return w.readList(ctx, fromShow, false)
	}
	rows, err := w.readList(ctx, fromPerformanceSchema, true)
	if err == nil {
		var lost uint64
		// Threads that found no place in performance_schema are missing there.
		if lost, err = w.threadsLost(ctx); err == nil && lost == 0 {
			return rows, nil
		}
	}
	if err != nil && !refusedTable(err) {
		return nil, err
	}
	w.own.list = false
	return w.readList(ctx, fromShow, false)
}

// readProxyNetworks asks for a variable that may be set at any time. What it was counts,
// too, for the connections that were made then.
func (w *Watcher) readProxyNetworks(ctx context.Context) error {
	if !w.own.proxies {
		return nil
	}
	return w.server.query(ctx, "SELECT @@GLOBAL.proxy_protocol_networks", func(r *sql.Rows) error {
		var networks sql.NullString
		err := r.Scan(&networks)
		w.own.info.addProxyNetworks(proxyNetworks(networks.String))
		return err
	})
}

func (w *Watcher) threadsLost(ctx context.Context) (lost uint64, err error) {
	err = w.server.query(ctx, "SHOW GLOBAL STATUS LIKE 'Performance_schema_thread_instances_lost'", func(r *sql.Rows) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		lost, err = strconv.ParseUint(value, 10, 64)
		return err
	})
	return lost, err
}

// rowsOf are the rows of those wanted connections that are in the list.
func (s *Snapshot) rowsOf(asked []Peer) []*Session {
	var found []*Session
	for _, k := range asked {
		if r, ok := s.Find(k); ok {
			found = append(found, r)
		}
	}
	return found
}
