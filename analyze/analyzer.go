package analyze

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/vm"

	"sqlwitness/sender"
)

// Stats count what an analyzer has taken. Messages = Events + Bad + Again + Learned.
type Stats struct {
	Messages uint64
	Events   uint64
	Bad      uint64 // no event of ours
	Again    uint64 // read a second time after a restart, and passed over
	Learned  uint64 // judged by another member before; read to know the lanes

	Gaps       uint64 // found
	Alerts     uint64
	RuleErrors uint64 // an expression failed on an event
	Overflow   uint64 // events that a rule could not count, for too many keys

	CommitErrors uint64 // commits of offsets that failed; later ones include them
}

// An analyzer judges events one by one. Its findings are lines of JSON.
type analyzer struct {
	rules  *Rules
	state  *state
	agents *agents
	out    func(line []byte) error
	stats  Stats
	vm     vm.VM
	event  Event

	judged   map[int]int64 // by partition: the first offset that the group has not judged
	learning bool          // the event at hand comes before: nothing is said of it

	asked int           // how often the ends of the partitions were asked for, see behind.go
	ends  map[int]int64 // that the verdicts that waited then wait for; nil: not known
}

func newAnalyzer(rules *Rules, s *state, a *agents, out func([]byte) error) *analyzer {
	return &analyzer{rules: rules, state: s, agents: a, out: out}
}

// take judges one message. The error is the output's.
func (a *analyzer) take(partition int, offset int64, value []byte, now time.Time) error {
	a.stats.Messages++
	next := a.state.Offsets[partition]
	a.state.Offsets[partition] = max(next, offset+1)
	line := value
	var err error
	if len(value) > 0 && value[0] != '{' {
		line, err = sender.DecodeThrift(value)
	}
	if err == nil {
		err = a.event.decode(line)
	}
	e := &a.event
	a.learning = offset < a.judged[partition]
	if err != nil || e.Agent == unknown || e.Boot == unknown || e.Lane < 0 || e.Seq == 0 {
		a.count(&a.stats.Bad)
		return nil
	}
	e.partition, e.learned = partition, a.learning
	if offset < next {
		if l := a.state.lane(e.Agent, e.Boot, e.Lane); e.Seq <= l.Last {
			a.stats.Again++
			return nil
		}
		a.state.Offsets[partition] = offset + 1 // the topic was made anew
	}
	a.count(&a.stats.Events)
	again, err := a.place(e, now)
	if err != nil || again {
		return err
	}
	return a.judge(e)
}

// count counts a message as n, if it is not one to learn from.
func (a *analyzer) count(n *uint64) {
	if a.learning {
		n = &a.stats.Learned
	}
	*n++
}

// place puts an event into its lane, and tells whether it was there before: then it
// says nothing new, and rules have counted it.
func (a *analyzer) place(e *Event, now time.Time) (again bool, err error) {
	if err := a.hear(e, now); err != nil {
		return false, err
	}
	l := a.state.lane(e.Agent, e.Boot, e.Lane)
	begun := l.First == 0 && e.Seq > 1 && a.state.readBefore(e.Agent, e.Boot, anyLane, e.partition)
	if begun {
		l.First = 1
	}
	g, missing, again := a.follow(e, l)
	if again {
		return !a.learning || l.Part == e.partition, nil
	}
	if missing {
		if err := a.gap(e, e.Lane, g); err != nil {
			return false, err
		}
	}
	if begun && e.Type != "agent_start" { // which is lost, with what it says
		if err := a.restartUntold(e); err != nil {
			return false, err
		}
	}
	switch e.Type {
	case "agent_report":
		return false, a.report(e, l)
	case "agent_start":
		return false, a.restart(e)
	case "agent_stop":
		l.Stopped = true
	}
	return false, nil
}

// follow puts an event behind, or between, those of its lane. It returns a gap that it has
// shown and that is sure, and whether the event has surely come before.
func (a *analyzer) follow(e *Event, l *lane) (g gap, missing, again bool) {
	// What is before it in its own partition was read.
	sure := l.Last > 0 && l.Part == e.partition || !a.others(e.partition)
	first, last, repeated := l.First, l.Last, l.Repeated
	g, missing = l.add(e.Seq, e.at, sure)
	l.SeenUnix = max(l.SeenUnix, e.at.Unix())
	if l.Last > last {
		if last > 0 && l.Part != e.partition {
			a.state.touch(l.Part)
		}
		l.Part = e.partition
	}
	switch {
	case l.First < first || l.Last > last+1 && !sure:
		a.hold(l)
	case l.Part != e.partition:
		a.state.touch(l.Part)
	}
	return g, missing, l.Repeated > repeated && l.knows(e.Seq)
}

// hear notes that the agent of an event is there.
func (a *analyzer) hear(e *Event, now time.Time) error {
	back, stranger := a.agents.hear(e.Agent, now)
	if back {
		if err := a.find(finding{Type: "agent_back", Agent: e.Agent, Time: e.Time}); err != nil {
			return err
		}
	}
	if !stranger {
		return nil
	}
	return a.find(finding{Type: "agent_unlisted", Agent: e.Agent, Time: e.Time})
}

func (a *analyzer) gap(e *Event, lane int, g gap) error {
	if !a.learning {
		a.stats.Gaps++
	}
	return a.find(finding{Type: "gap", Agent: e.Agent, Boot: e.Boot, Lane: &lane, Time: e.Time, From: g.From, To: g.To, Count: g.size(), Why: g.Why})
}

// report explains gaps by what the agent says of its lane. The report comes behind
// all events that it speaks of.
func (a *analyzer) report(e *Event, l *lane) error {
	var holes [][2]uint64
	if len(e.Holes) > 0 && json.Unmarshal(e.Holes, &holes) != nil {
		return nil // of a schema that is not ours
	}
	if err := a.explain(e, l, holes, "given up by the agent's queue or spool"); err != nil {
		return err
	}
	// Which of the agent's sinks leads here nobody knows: what is missing tells.
	var others map[string][][2]uint64
	if len(e.SinkHoles) > 0 && json.Unmarshal(e.SinkHoles, &others) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if err := a.explain(e, l, others[name], "given up by the agent's queue or spool for "+name); err != nil {
			return err
		}
	}
	return a.reportEarlier(e)
}

// reportEarlier explains gaps of earlier runs by what was lost of their spool. Of a
// lane that this reader has not seen it knows nothing.
func (a *analyzer) reportEarlier(e *Event) error {
	var holes []struct {
		Sink, Boot string
		Lane       int
		From, To   uint64
	}
	if len(e.EarlierHoles) > 0 && json.Unmarshal(e.EarlierHoles, &holes) != nil {
		return nil // of a schema that is not ours
	}
	for _, h := range holes {
		l, ok := a.state.Lanes[laneKey(e.Agent, h.Boot, h.Lane)]
		if !ok {
			continue
		}
		before := *e
		before.Boot, before.Lane = h.Boot, h.Lane
		if err := a.explain(&before, l, [][2]uint64{{h.From, h.To}}, "lost in the agent's spool for "+h.Sink); err != nil {
			return err
		}
	}
	return nil
}

func (a *analyzer) explain(e *Event, l *lane, holes [][2]uint64, why string) error {
	for _, h := range holes {
		for _, g := range l.explain(gap{From: h[0], To: h[1], Why: why}) {
			f := finding{Type: "gap_explained", Agent: e.Agent, Boot: e.Boot, Lane: &e.Lane, Time: e.Time, From: g.From, To: g.To, Count: g.size(), Why: g.Why}
			if err := a.find(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge applies the rules.
func (a *analyzer) judge(e *Event) error {
	for _, r := range a.rules.list {
		matched, err := r.match(&a.vm, e)
		if err != nil {
			a.stats.RuleErrors++
			continue
		}
		if !matched {
			continue
		}
		ws := a.state.windows(r.Name)
		overflow := ws.overflow
		n, raised := ws.observe(r, e)
		a.stats.Overflow += ws.overflow - overflow
		if !raised {
			continue
		}
		if a.learning {
			continue
		}
		a.stats.Alerts++
		if err := a.find(r.alert(e, n)); err != nil {
			return err
		}
	}
	return nil
}

// alert is the finding of a rule, with the event that raised it.
func (r *Rule) alert(e *Event, n float64) finding {
	key := map[string]string{}
	for _, f := range r.By {
		if v := r.text(e, f); v != unknown {
			key[f] = v
		}
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%d\x00%d", r.Name, r.key(e), e.Agent, e.Boot, e.Lane, e.Seq)
	f := finding{Type: "alert", ID: strconv.FormatUint(h.Sum64(), 16), Time: e.Time, Agent: e.Agent, Rule: r.Name, Severity: r.Severity,
		Attack: r.Attack, About: r.About, Key: key, Event: e.raw}
	if r.Count > 1 {
		f.Count, f.WindowS = uint64(min(n, math.MaxInt64)), int64(r.window/time.Second)
	}
	return f
}

// A finding is a line of the output. Type is gap, gap_explained, blind (an agent was
// killed: from Since to Time nobody watched), agent_silent, agent_back,
// agent_never_seen, agent_unlisted, alert or summary.
type finding struct {
	Type     string            `json:"type"`
	Time     string            `json:"time"`
	ID       string            `json:"id,omitempty"`
	Agent    string            `json:"agent,omitempty"`
	Boot     string            `json:"boot,omitempty"`
	Lane     *int              `json:"lane,omitempty"`
	From     uint64            `json:"from,omitempty"`
	To       uint64            `json:"to,omitempty"`
	Count    uint64            `json:"count,omitempty"`
	Why      string            `json:"why,omitempty"`
	Since    string            `json:"since,omitempty"`
	SilentS  int64             `json:"silent_s,omitempty"`
	Rule     string            `json:"rule,omitempty"`
	Severity string            `json:"severity,omitempty"`
	Attack   string            `json:"attack,omitempty"`
	About    string            `json:"about,omitempty"`
	Key      map[string]string `json:"key,omitempty"`
	WindowS  int64             `json:"window_s,omitempty"`
	Event    json.RawMessage   `json:"event,omitempty"`
	Cut      bool              `json:"cut,omitempty"` // see finding.cut
	*summary
}

// A summary is the completeness of everything seen so far.
type summary struct {
	Events    uint64        `json:"events"`
	Missing   uint64        `json:"missing"`
	Explained uint64        `json:"explained"`
	Repeated  uint64        `json:"repeated"`
	Late      uint64        `json:"late"`
	Alerts    uint64        `json:"alerts"`
	Bad       uint64        `json:"bad"`
	Silent    []string      `json:"silent"`
	NeverSeen []string      `json:"never_seen"` // of the agents whose lane 0 is in a partition of this member
	Lanes     []laneSummary `json:"lanes"`
}

type laneSummary struct {
	Agent string `json:"agent"`
	Boot  string `json:"boot"`
	Lane  int    `json:"lane"`
	*lane
}

func (a *analyzer) find(f finding) error {
	if a.learning {
		return nil
	}
	line, err := json.Marshal(f)
	for step := 0; err == nil && len(line) > maxFinding && step < cutSteps; step++ {
		if f.Event != nil {
			n := a.event.Lane
			f.Boot, f.Lane, f.From = a.event.Boot, &n, a.event.Seq
		}
		f.cut(step)
		line, err = json.Marshal(f)
	}
	if err != nil {
		return fmt.Errorf("encode finding: %w", err)
	}
	return a.out(line)
}

// tick says which agents have fallen silent.
func (a *analyzer) tick(now time.Time) error {
	a.learning = false
	silent, never := a.agents.quiet(now)
	at := now.UTC().Format(time.RFC3339Nano)
	for _, name := range silent {
		f := finding{Type: "agent_silent", Time: at, Agent: name, SilentS: int64(now.Sub(a.agents.heard[name]) / time.Second)}
		if err := a.find(f); err != nil {
			return err
		}
	}
	for _, name := range never {
		if err := a.find(finding{Type: "agent_never_seen", Time: at, Agent: name}); err != nil {
			return err
		}
	}
	return nil
}

// summarize reports on all lanes. The sums are over what the state knows, runs
// before this one included.
func (a *analyzer) summarize(now time.Time) error {
	a.learning = false
	s := &summary{Alerts: a.stats.Alerts, Bad: a.stats.Bad, Silent: a.agents.silentNow(), NeverSeen: a.agents.neverHeard(), Lanes: []laneSummary{}}
	for key, l := range a.state.Lanes {
		parts := strings.SplitN(key, "\x00", 3)
		n, _ := strconv.Atoi(parts[2])
		s.Lanes = append(s.Lanes, laneSummary{parts[0], parts[1], n, l})
		s.Events += l.Events
		s.Missing += l.Missing
		s.Explained += l.Known
		s.Repeated += l.Repeated
		s.Late += l.Late
	}
	slices.SortFunc(s.Lanes, func(x, y laneSummary) int {
		return cmp.Or(cmp.Compare(x.Agent, y.Agent), compareBoots(x.Boot, y.Boot), cmp.Compare(x.Lane, y.Lane))
	})
	return a.find(finding{Type: "summary", Time: now.UTC().Format(time.RFC3339Nano), summary: s})
}
