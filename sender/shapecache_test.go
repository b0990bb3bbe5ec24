package sender

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/parser"
)

func TestShapeCacheFinds(t *testing.T) {
	c := newShapeCache(64, 1<<20)
	for i := uint64(1); i <= 32; i++ {
		c.put(&analysis{shape: scramble(i), digest: fmt.Sprint(i)})
	}
	for i := uint64(1); i <= 32; i++ {
		if a := c.find(scramble(i)); a == nil || a.digest != fmt.Sprint(i) {
			t.Errorf("shape %d: %v", i, a)
		}
	}
	if c.find(scramble(33)) != nil {
		t.Error("found what was not put")
	}
	c.put(&analysis{shape: scramble(5), digest: "again"})
	if a := c.find(scramble(5)); a.digest != "again" || c.stats.evicted.Load() != 0 {
		t.Errorf("%q, %d evicted", a.digest, c.stats.evicted.Load())
	}
}

// Whatever comes, the cache keeps its bounds and its sum of bytes is right.
func TestShapeCacheIsBounded(t *testing.T) {
	c := newShapeCache(16, 40<<10)
	r := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		a := &analysis{shape: r.Uint64N(400) + 1}
		for range r.IntN(4) {
			a.add(tableName{"s", strings.Repeat("t", 1+r.IntN(250))}, false)
		}
		c.put(a)
		if c.find(a.shape) != a {
			t.Fatal("gone at once")
		}
		var sum int64
		for i := range c.sets {
			for k := range c.sets[i].at {
				if p := c.sets[i].at[k].Load(); p != nil {
					sum += int64(p.bytes())
				}
			}
		}
		if sum != c.bytes || sum > c.limit {
			t.Fatalf("%d bytes, counted %d, limit %d", sum, c.bytes, c.limit)
		}
	}
	if c.stats.evicted.Load() == 0 {
		t.Error("nothing was given up")
	}
}

// What is used stays, what is not goes first.
func TestShapeCacheKeepsWhatIsUsed(t *testing.T) {
	c := newShapeCache(1, 1<<20)
	for i := uint64(1); i <= shapeWays; i++ {
		c.put(&analysis{shape: i})
	}
	for i := uint64(100); i < 200; i++ {
		c.find(1)
		c.put(&analysis{shape: i})
		if c.find(1) == nil {
			t.Fatalf("gone after %d others", i-99)
		}
	}
}

func TestFirstSeen(t *testing.T) {
	c := newShapeCache(1, 1<<20)
	r := rand.New(rand.NewPCG(2, 2))
	shapes := make([]uint64, 20_000)
	for i := range shapes {
		shapes[i] = r.Uint64()
		if !c.first(shapes[i]) {
			t.Fatal("seen before")
		}
	}
	again := 0
	for _, s := range shapes {
		if c.first(s) {
			again++
		}
	}
	if again > len(shapes)/100 {
		t.Errorf("%d of %d were forgotten", again, len(shapes))
	}
	for range seenShapes + seenShapes/4 {
		c.first(r.Uint64() | 1)
	}
	if !c.first(12345) || c.first(12345) {
		t.Error("a full table does not take or keep a shape")
	}
}

// The goroutines of lanes and worker may meet in the cache.
func TestShapeCacheRace(t *testing.T) {
	c := newShapeCache(8, 8<<10)
	var done sync.WaitGroup
	for g := range 3 {
		done.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(g)))
			for range 20_000 {
				shape := r.Uint64N(100) + 1
				c.first(shape)
				if a := c.find(shape); a == nil {
					c.put(&analysis{shape: shape})
				} else if a.shape != shape {
					t.Error("found another")
				}
			}
		})
	}
	done.Wait()
}

// The digest is the parser's, of a form.
func TestDigest(t *testing.T) {
	for sql, form := range map[string]string{
		"select a from t where b = 5 and c in (1,2,3)":      "select a from t where b = 0 and c in (0)",
		"insert into t values (1,'x'),(2,'y')":              "insert into t values (0)",
		"select a into outfile 'x' from t":                  "select a into outfile '' from t",
		"/*M!100100 select a from t */":                     "/*!100100 select a from t */",
		"create user 'u'@'10.0.0.1' identified by 'secret'": "create user 'u'@'10.0.0.1' identified by ''",
	} {
		_, want := parser.NormalizeDigest(form)
		if got := study(sql, true).digest; got != want.String()[:32] {
			t.Errorf("%q: %s, want %s", sql, got, want)
		}
	}
	equal := [][]string{
		{"select a from t where b=1", "SELECT  a\nFROM t WHERE b = 'x'", "select /* c */ a from t where b=-5", "select a from t where b=?"},
		{"select a from t where b in (1)", "select a from t where b in ('x', 'y', NULL)"},
		{"select a from t order by 2", "select a from t order by 3"},
	}
	seen := map[string]string{}
	for _, group := range equal {
		digest := study(group[0], true).digest
		for _, sql := range group[1:] {
			if got := study(sql, true).digest; got != digest {
				t.Errorf("%q and %q differ", sql, group[0])
			}
		}
		if other, ok := seen[digest]; ok {
			t.Errorf("%q and %q are equal", other, group[0])
		}
		seen[digest] = group[0]
	}
}

// The worker studies what it is offered, gives up nothing silently, and rests when
// it has worked too much.
func TestShapeWorker(t *testing.T) {
	c := newShapeCache(64*shapeSets, shapeBytes) // so many that none falls on another's place
	w := newShapeWorker(c, 1, time.Hour)
	defer w.close()
	taken := 0
	for i := range 3 * maxJobs {
		form := fmt.Appendf(nil, "select a%d from t%d", i, i)
		shape := shapeOf(c.seed, form, 45, false, 1)
		c.put(&analysis{shape: shape})
		if w.offer(shape, form, 1) {
			taken++
		}
	}
	if got := c.stats.postponed.Load(); int(got) != 3*maxJobs-taken {
		t.Errorf("%d postponed, %d taken", got, taken)
	}
	eventually(t, "all are studied", func() bool { return int(c.stats.studied.Load()) >= taken })
	form := []byte("select a0 from t0")
	a := c.find(shapeOf(c.seed, form, 45, false, 1))
	if a == nil || !a.parsed() || a.String() != "t0" || int(c.stats.studied.Load()) != taken {
		t.Errorf("%+v, %d of %d studied", a, c.stats.studied.Load(), taken)
	}
	if w.waiting.Load() != 0 {
		t.Errorf("%d bytes wait", w.waiting.Load())
	}
}

// The worker takes no more than its share of a processor.
func TestShapeWorkerRests(t *testing.T) {
	form := []byte(strings.Repeat("select a from t where b = 0 union ", 100))
	var a analyst
	alone := time.Hour
	runtime.LockOSThread()
	for range 5 {
		began := threadTime(t) // what else the machine does is not in it
		a.study(1, form, 1)
		alone = min(alone, threadTime(t)-began)
	}
	runtime.UnlockOSThread()
	c := newShapeCache(16, 1<<20)
	w := newShapeWorker(c, 0.05, 0)
	defer w.close()
	const jobs = 10
	began := time.Now()
	for i := range jobs {
		w.offer(uint64(i+1), form, 1)
	}
	for c.stats.studied.Load() < jobs {
		time.Sleep(100 * time.Microsecond)
	}
	// Without rest it would be ten times, with rest it is 180: the last pause is not waited for.
	if took := time.Since(began); took < 60*alone {
		t.Errorf("%d forms took %v, one %v", jobs, took, alone)
	}
}

// What waits for the worker is bounded in bytes too.
func TestShapeWorkerBytes(t *testing.T) {
	w := &shapeWorker{cache: newShapeCache(1, 1), jobs: make(chan shapeJob, maxJobs)}
	form := make([]byte, 1<<20)
	n := 0
	for w.offer(uint64(n+1), form, 1) {
		n++
	}
	if n != maxJobBytes/maxFormBytes {
		t.Errorf("%d forms of %d bytes wait", n, maxFormBytes)
	}
}
