package analyze

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// The events of one agent are in several partitions where it has several lanes, or
// where the topic has grown and the agent was restarted since. Each partition is in
// order, but one may be read far behind another. What the events of one seem to say of
// another's, that something is missing, or that a run was not ended, is not sure before
// the other has been read as far as it reached at that time. Until then the verdict
// waits in its lane, and goes where the lane goes.

// others tells whether this member has a partition besides the given one.
func (a *analyzer) others(partition int) bool {
	_, own := a.judged[partition]
	return len(a.judged) > 1 || len(a.judged) == 1 && !own
}

// hold has a lane's verdict wait for the ends that are asked for next.
func (a *analyzer) hold(l *lane) {
	l.round = a.asked
	a.state.touch(l.Part)
}

// holds tells whether any verdict waits.
func (a *analyzer) holds() bool {
	for _, l := range a.state.Lanes {
		if l.holds() {
			return true
		}
	}
	return false
}

// ask is to be called before the ends of this member's partitions are asked for. It
// returns what the answer is to be given back with.
func (a *analyzer) ask() (round int) {
	a.asked++
	a.ends = nil
	return a.asked
}

// answer takes the ends, unless they were asked for too long ago: for each partition the
// offset behind its last message, 0 if it holds none.
func (a *analyzer) answer(round int, ends map[int]int64) {
	if round == a.asked {
		a.ends = ends
	}
}

// settle tells the verdicts that waited for ends that are reached now.
func (a *analyzer) settle() error {
	if a.ends == nil {
		return nil
	}
	for p := range a.judged {
		end, ok := a.ends[p]
		if !ok {
			a.ends = nil
			return nil
		}
		if a.state.Offsets[p] < end {
			return nil
		}
	}
	a.ends, a.learning = nil, false
	for _, key := range slices.Sorted(maps.Keys(a.state.Lanes)) {
		l := a.state.Lanes[key]
		if l.round >= a.asked || !l.holds() {
			continue
		}
		if err := a.verdict(key, l); err != nil {
			return err
		}
	}
	return nil
}

// verdict tells what is sure of a lane now.
func (a *analyzer) verdict(key string, l *lane) error {
	a.state.touch(l.Part)
	parts := strings.SplitN(key, "\x00", 3)
	n, _ := strconv.Atoi(parts[2])
	e := Event{Agent: parts[0], Boot: parts[1], Lane: n}
	for _, g := range l.decide() {
		e.Time = g.Held
		if err := a.gap(&e, n, g); err != nil {
			return err
		}
	}
	at := l.Unwatched
	l.Unwatched = ""
	if at == "" || l.Stopped {
		return nil
	}
	return a.blind(e.Agent, e.Boot, l, at)
}

// settle has the analyzer tell what is sure now, and asks for the ends of the partitions
// where something is not. It does not wait for the answer.
func (c *Consumer) settle(ctx context.Context) error {
	a := c.analyzer
	select {
	case got := <-c.ends:
		c.asking = false
		a.answer(got.round, got.ends)
	default:
	}
	if err := a.settle(); err != nil {
		return err
	}
	if c.asking || a.ends != nil || !a.holds() {
		return nil
	}
	c.asking = true
	round, partitions := a.ask(), slices.Collect(maps.Keys(a.judged))
	go func() { c.ends <- endsAnswer{round, c.readEnds(ctx, partitions)} }()
	return nil
}

// An endsAnswer is where the partitions ended after a round of asking began.
type endsAnswer struct {
	round int
	ends  map[int]int64 // nil: nobody could tell
}

// readEnds asks the brokers for the ends of partitions; nil if not all are known.
func (c *Consumer) readEnds(ctx context.Context, partitions []int) map[int]int64 {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, transport, err := c.cfg.Cluster.Client(c.cfg.Topic)
	if err != nil {
		return nil
	}
	defer transport.CloseIdleConnections()
	var ask []kafka.OffsetRequest
	for _, p := range partitions {
		ask = append(ask, kafka.FirstOffsetOf(p), kafka.LastOffsetOf(p))
	}
	got, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{c.cfg.Topic: ask}})
	if err != nil {
		return nil
	}
	ends := map[int]int64{}
	for _, p := range got.Topics[c.cfg.Topic] {
		if p.Error != nil {
			return nil
		}
		ends[p.Partition] = p.LastOffset
		if p.FirstOffset >= p.LastOffset {
			ends[p.Partition] = 0
		}
	}
	if len(ends) < len(partitions) {
		return nil
	}
	return ends
}
