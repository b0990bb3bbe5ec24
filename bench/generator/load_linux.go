package generator

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// A loader is one thread that drives all connections.
type loader struct {
	cfg      LoadConfig
	poller   *poller
	sessions []*session
	byFD     map[int32]*session
	began    time.Time
	interval float64 // ns between two statements; 0 = the closed loop
	total    int64   // statements of the schedule
	next     int64   // the first that is not due yet
	answered int64
	latency  *hdrhistogram.Histogram // ns
	pad      string
	buf      []byte
	in       [64 << 10]byte
	res      LoadResult
}

// quantum is how long the schedule is left alone at least: a wake-up for each
// statement would cost more than the statement.
const quantum = 50 * time.Microsecond

// stuck is how long Load waits for a response.
const stuck = 20 * time.Second

// Load opens the connections, calls started, and sends by the schedule. When all
// is answered it calls answered, which may be nil, and closes the connections. An
// error of the server ends it.
func Load(ctx context.Context, cfg LoadConfig, started func(), answered func(LoadResult)) (LoadResult, error) {
	if err := cfg.check(); err != nil {
		return LoadResult{}, err
	}
	p, err := newPoller()
	if err != nil {
		return LoadResult{}, err
	}
	defer p.close()
	l := &loader{cfg: cfg, poller: p, byFD: map[int32]*session{}, pad: padding(cfg.SQLBytes),
		latency: hdrhistogram.New(100, int64(time.Minute), 3)}
	defer l.close()
	for i := range cfg.Conns {
		s, err := connect(ctx, cfg)
		if err != nil {
			return LoadResult{}, fmt.Errorf("connection %d: %w", i, err)
		}
		s.index = int64(i)
		l.sessions = append(l.sessions, s)
		l.byFD[int32(s.fd)] = s
		if err := p.add(s.fd, unix.EPOLLIN); err != nil {
			return LoadResult{}, err
		}
	}
	if cfg.Rate > 0 {
		l.interval = 1e9 / cfg.Rate
		l.total = int64(cfg.Duration.Seconds() * cfg.Rate)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Timers of this thread may not be late by the usual 50 µs.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return LoadResult{}, err
	}
	started()
	res, err := l.run(ctx)
	if err == nil && answered != nil {
		answered(res)
	}
	return res, err
}

func (l *loader) close() {
	for _, s := range l.sessions {
		s.close()
	}
}

// now is nanoseconds since the start.
func (l *loader) now() int64 { return time.Since(l.began).Nanoseconds() }

// intended is when statement n of a session was due.
func (l *loader) intended(n int64, s *session) int64 {
	return int64(float64(n*int64(len(l.sessions))+s.index) * l.interval)
}

func (l *loader) run(ctx context.Context) (LoadResult, error) {
	cpu := processCPU()
	l.began = time.Now()
	now, last := int64(0), int64(0)
	for {
		if err := l.schedule(now); err != nil {
			return LoadResult{}, err
		}
		if l.done(now) {
			break
		}
		ready, err := l.poller.wait(l.sleep(now))
		if err != nil {
			return LoadResult{}, err
		}
		now = l.now()
		for _, e := range ready {
			if err := l.handle(e, now); err != nil {
				return LoadResult{}, err
			}
			last = now
		}
		if time.Duration(now-last) > stuck || ctx.Err() != nil {
			return LoadResult{}, fmt.Errorf("%d of %d statements answered, nothing for %v: %w", l.answered, l.res.Sent, time.Duration(now-last), context.Cause(ctx))
		}
	}
	l.res.Seconds = float64(l.now()) / 1e9
	l.res.CPUSeconds = (processCPU() - cpu).Seconds()
	return l.result(), nil
}

// schedule makes due what is due, and sends it.
func (l *loader) schedule(now int64) error {
	if l.interval == 0 {
		return l.closedLoop(now)
	}
	for l.next < l.total && int64(float64(l.next)*l.interval) <= now {
		s := l.sessions[l.next%int64(len(l.sessions))]
		l.next++
		s.due++
		if err := l.push(s, now); err != nil {
			return err
		}
	}
	return nil
}

// closedLoop fills all connections, once.
func (l *loader) closedLoop(now int64) error {
	if l.next > 0 {
		return nil
	}
	l.next = 1
	for _, s := range l.sessions {
		s.due = int64(l.cfg.Depth)
		if err := l.push(s, now); err != nil {
			return err
		}
	}
	return nil
}

// done tells whether all is sent and answered.
func (l *loader) done(now int64) bool {
	if l.interval > 0 {
		return l.answered == l.total
	}
	return now >= l.cfg.Duration.Nanoseconds() && l.answered == l.res.Sent
}

// sleep is how long only responses can wake the loader.
func (l *loader) sleep(now int64) time.Duration {
	if l.interval == 0 || l.next == l.total {
		return 10 * time.Millisecond
	}
	return max(quantum, time.Duration(float64(l.next)*l.interval)-time.Duration(now))
}

func (l *loader) handle(e unix.EpollEvent, now int64) error {
	s := l.byFD[e.Fd]
	if e.Events&unix.EPOLLOUT != 0 {
		if err := l.flush(s, now); err != nil {
			return err
		}
	}
	if e.Events&^unix.EPOLLOUT == 0 {
		return nil
	}
	if err := l.receive(s, now); err != nil {
		return err
	}
	if l.interval == 0 && now < l.cfg.Duration.Nanoseconds() {
		s.due = s.answered + int64(l.cfg.Depth)
	}
	return l.push(s, now)
}

func (l *loader) result() LoadResult {
	us := func(percentile float64) float64 { return float64(l.latency.ValueAtQuantile(percentile)) / 1e3 }
	l.res.P50, l.res.P90, l.res.P99, l.res.P999 = us(50), us(90), us(99), us(99.9)
	l.res.Max = float64(l.latency.Max()) / 1e3
	for _, s := range l.sessions {
		l.res.Numbered = append(l.res.Numbered, Connection{ID: s.id, Sent: s.sent})
	}
	return l.res
}

// processCPU is the processor time that this process has used.
func processCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
