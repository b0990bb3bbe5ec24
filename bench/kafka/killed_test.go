//go:build linux

package kafka_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/sender"
)

// A lifeEvent is what the test of killed agents reads of an event.
type lifeEvent struct {
	Type, Boot, SQL string
	Time            time.Time
	Lane            int
	Seq             uint64
	PreviousBoot    string    `json:"previous_boot"`
	PreviousClean   *bool     `json:"previous_clean"`
	PreviousSeqs    []uint64  `json:"previous_seqs"`
	BlindFrom       time.Time `json:"blind_from"`
}

// A life is a run of the agent, as the topic tells of it.
type life struct {
	start lifeEvent // its agent_start
	after int       // records of earlier runs that came behind it
	last  uint64    // seq
	tally
}

// A death is when an agent was killed, and what was safe then.
type death struct {
	before, after time.Time // the agent was killed in between
	records       int64     // in the topic
	spooled       uint64
	restarted     time.Time // the next one was started
}

// bounds of what an agent may be behind: its state is written every second, and that
// and the capture are given what a busy machine takes.
const (
	stateEvery   = 6 * time.Second
	captureDelay = 500 * time.Millisecond
)

// The agent is killed twice while statements are sent: once while its events go to
// the spool, the last batch before that being in the topic unacknowledged; once while
// the broker takes them. What was in the topic or the spool arrives, in order; what
// comes twice and what is lost at the end is named; and every statement that no run
// saw lies in a window that the next run's agent_start names.
func TestAgentKilled(t *testing.T) {
	name := topic(t, "killed")
	srv := server(t, nil, "app")
	p := startProxy(t, shared.Front, shared.Behind, produces)
	dir := t.TempDir()
	spool := filepath.Join(dir, "spool")
	run := func() *agent.Agent {
		a, err := agent.Start(t.Context(), nil, program(t), "run", "-c", config(t, `
capture: {interfaces: [lo], ports: [%d]}
sinks: [{type: kafka, brokers: [%q], topic: %s, timeout: 2s}]
spool: {dir: %q, min_free: 0}
state_file: %q
`, srv.Port, shared.Front.Addr(), name, spool, filepath.Join(dir, "state")))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	kill := func(a *agent.Agent) (d death) {
		d.before = time.Now()
		a.Kill()
		d.after = time.Now()
		within(t, 30*time.Second, "what the agent had sent to be in the topic", p.idle)
		d.records = size(t, name)
		d.spooled = waiting(t, filepath.Join(spool, "kafka"))
		time.Sleep(300 * time.Millisecond)
		d.restarted = time.Now()
		return d
	}

	first := run()
	l := startPaced(t, srv, "app", 4, 2000)
	time.Sleep(2 * time.Second)
	p.keepAnswers(p.hangUp)
	within(t, 30*time.Second, "an answer that is kept back, and events in the spool", func() bool { return p.cut.Load() && len(segments(t, spool)) > 0 })
	time.Sleep(1500 * time.Millisecond)
	deaths := []death{kill(first)}
	second := run()
	time.Sleep(time.Second)
	p.pass()
	within(t, 30*time.Second, "an empty spool", func() bool { return len(segments(t, spool)) == 0 })
	time.Sleep(time.Second)
	// What was noted is still in memory, most likely.
	noted := modified(t, filepath.Join(dir, "state"))
	for noted.Equal(modified(t, filepath.Join(dir, "state"))) {
		time.Sleep(time.Millisecond)
	}
	deaths = append(deaths, kill(second))
	third := run()
	time.Sleep(time.Second)
	l.stop()
	time.Sleep(captureDelay)
	if err := third.Stop(); err != nil {
		t.Fatal(err)
	}

	lives, seen := readLives(t, name)
	if len(lives) != 3 {
		t.Fatalf("%d runs in the topic", len(lives))
	}
	checkSafe(t, lives, deaths)
	tail := checkWindows(t, l.times, seen, lives, deaths)
	c := consumed(t, name)
	t.Logf("the consumer: %+v", c)
	if c.Repeated != lives[0].repeated+lives[1].repeated || c.Missing != tail || c.Late+c.Bad != 0 || c.found["blind"] != 2 {
		t.Errorf("%d missing at the ends of runs; the consumer: %+v", tail, c)
	}
	if t.Failed() {
		t.Log(third.Stderr())
	}
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// waiting is how many events wait in a spool, of which a copy is opened.
func waiting(t *testing.T, dir string) uint64 {
	t.Helper()
	cp := filepath.Join(t.TempDir(), "spool")
	if err := os.CopyFS(cp, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s, err := sender.OpenSpool(sender.SpoolConfig{Dir: cp, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Stats().Events
}

// readLives reads the runs of the agent, and which numbered statements they saw.
func readLives(t *testing.T, name string) (lives []*life, seen map[int]bool) {
	t.Helper()
	seen = map[int]bool{}
	judges, byBoot := map[string]*judge{}, map[string]*life{}
	read(t, name, func(value []byte) (int, uint64) {
		var e lifeEvent
		if err := json.Unmarshal(value, &e); err != nil {
			t.Fatalf("%v: %q", err, value)
		}
		if byBoot[e.Boot] == nil {
			byBoot[e.Boot], judges[e.Boot] = &life{start: e}, newJudge()
			lives = append(lives, byBoot[e.Boot])
		}
		v := byBoot[e.Boot]
		judges[e.Boot].add(e.Lane, e.Seq)
		v.last = max(v.last, e.Seq)
		if v != lives[len(lives)-1] {
			lives[len(lives)-1].after++
		}
		if _, number, ok := strings.Cut(e.SQL, load.Marker); ok {
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("%q", e.SQL)
			}
			seen[n] = true
		}
		return 0, 1
	})
	for boot, v := range byBoot {
		v.tally = judges[boot].verdict()
	}
	return lives, seen
}

// checkSafe holds what arrived against what was in the topic and in the spool when
// the agent was killed.
func checkSafe(t *testing.T, lives []*life, deaths []death) {
	t.Helper()
	for i, v := range lives {
		t.Logf("run %d: %v, last seq %d", i, v.tally, v.last)
		if v.missing+v.disordered+v.after != 0 || v.start.Type != "agent_start" || v.start.Seq != 1 {
			t.Errorf("run %d: %v; begins with %s %d; %d records of earlier runs are behind that", i, v.tally, v.start.Type, v.start.Seq, v.after)
		}
	}
	if safe := deaths[0].records + int64(deaths[0].spooled); int64(lives[0].records) != safe || deaths[0].spooled == 0 || lives[0].repeated == 0 {
		t.Errorf("of %d records and spooled events %d came, %d of them again", safe, lives[0].records, lives[0].repeated)
	}
	if safe := deaths[1].records + int64(deaths[1].spooled); int64(lives[0].records+lives[1].records) != safe {
		t.Errorf("of %d records and spooled events %d came", safe, lives[0].records+lives[1].records)
	}
}

// checkWindows checks what each agent_start says of the run before, and that no
// statement was lost elsewhere. It returns how many events the killed runs had given
// a seq that their state tells of, and that were still in memory.
func checkWindows(t *testing.T, times []sending, seen map[int]bool, lives []*life, deaths []death) (tail int) {
	t.Helper()
	lost, early := make([]int, len(deaths)), make([]int, len(deaths))
	for n, s := range times {
		if seen[n] {
			continue
		}
		i := slices.IndexFunc(lives[1:], func(v *life) bool { return !s.sent.After(v.start.Time) })
		if i < 0 {
			t.Errorf("statement %d, sent %v, is lost behind all windows", n, s.sent)
			continue
		}
		lost[i]++
		if s.answered.Before(lives[i+1].start.BlindFrom.Add(-captureDelay)) {
			early[i]++
		}
	}
	for i, d := range deaths {
		v, from, to := lives[i], lives[i+1].start.BlindFrom, lives[i+1].start.Time
		if s := lives[i+1].start; s.PreviousBoot != v.start.Boot || s.PreviousClean == nil || *s.PreviousClean || len(s.PreviousSeqs) != 1 {
			t.Fatalf("run %d begins with %+v", i+1, s)
		}
		if from.After(d.before) || to.Before(d.restarted) || d.before.Sub(from) > stateEvery {
			t.Errorf("window %d is [%v, %v]; killed at %v, restarted at %v", i, from, to, d.before, d.restarted)
		}
		named := int(lives[i+1].start.PreviousSeqs[0]) - int(min(v.last, lives[i+1].start.PreviousSeqs[0]))
		tail += named
		t.Logf("killed with %d records in the topic, %d events in the spool; window %d begins %v before the kill and is %v long; %d of %d statements lost in it, %d early; seq %d noted, %d named", d.records, d.spooled, i, d.before.Sub(from), to.Sub(from), lost[i], len(times), early[i], lives[i+1].start.PreviousSeqs[0], named)
		if lost[i] == 0 || early[i] > named {
			t.Errorf("window %d: %d statements lost, %d of them before it, %d named", i, lost[i], early[i], named)
		}
	}
	return tail
}
