package sender

import (
	"sync"
	"sync/atomic"
	"time"
)

// A shapeWorker studies new shapes, one after the other, on one goroutine of its
// own. A lane that meets a new shape looks at its tokens and goes on: the events
// of a shape go out without digest, and with guessed tables, until the worker is
// done with it, which takes some ten microseconds unless many shapes are new. What
// waits is bounded; a shape for which there is no room is offered again by its
// next event. The worker takes at most workShare of one processor, after a start
// that may take more.
type shapeWorker struct {
	cache   *shapeCache
	jobs    chan shapeJob
	waiting atomic.Int64  // bytes of the forms in jobs
	share   float64       // what it may take of a processor in the long run
	burst   time.Duration // and how much of that it may save up
	quit    chan struct{}
	stop    sync.Once
	done    sync.WaitGroup
}

// A shapeJob is a form to look at: its beginning, if it is longer.
type shapeJob struct {
	shape      uint64
	form       []byte
	rest       bool // the form is longer
	statements int
}

// newShapeJob borrows the first most bytes of a form.
func newShapeJob(shape uint64, form []byte, most, statements int) shapeJob {
	return shapeJob{shape, form[:min(len(form), most)], len(form) > most, statements}
}

const (
	maxJobs     = 1024
	maxJobBytes = 4 << 20

	// workBurst is enough for some ten thousand shapes after the start.
	workShare = 0.1
	workBurst = 2 * time.Second
)

func newShapeWorker(c *shapeCache, share float64, burst time.Duration) *shapeWorker {
	w := &shapeWorker{cache: c, share: share, burst: burst, jobs: make(chan shapeJob, maxJobs), quit: make(chan struct{})}
	w.done.Go(w.run)
	return w
}

// offer gives the worker a copy of a form, unless too much waits. It does not
// block.
func (w *shapeWorker) offer(shape uint64, form []byte, statements int) bool {
	j := newShapeJob(shape, form, maxFormBytes, statements)
	if len(w.jobs) == cap(w.jobs) || w.waiting.Load()+int64(len(j.form)) > maxJobBytes {
		w.cache.stats.postponed.Add(1)
		return false
	}
	w.waiting.Add(int64(len(j.form)))
	j.form = append([]byte(nil), j.form...)
	select {
	case w.jobs <- j:
		return true
	default:
		w.waiting.Add(-int64(len(j.form)))
		w.cache.stats.postponed.Add(1)
		return false
	}
}

// close ends the goroutine; what waits is not studied.
func (w *shapeWorker) close() {
	w.stop.Do(func() { close(w.quit) })
	w.done.Wait()
}

func (w *shapeWorker) run() {
	var a analyst
	credit, last := w.burst, time.Now()
	for {
		var j shapeJob
		select {
		case <-w.quit:
			return
		case j = <-w.jobs:
		}
		w.waiting.Add(-int64(len(j.form)))
		begin := time.Now()
		w.cache.put(a.do(j))
		w.cache.stats.studied.Add(1)
		now := time.Now()
		credit = min(credit+time.Duration(float64(now.Sub(last))*w.share), w.burst) - now.Sub(begin)
		last = now
		if credit < 0 && !w.rest(time.Duration(-float64(credit)/w.share)) {
			return
		}
	}
}

// rest waits, and tells whether to go on.
func (w *shapeWorker) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.quit:
		return false
	case <-t.C:
		return true
	}
}
