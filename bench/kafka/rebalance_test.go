//go:build linux

package kafka_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"sqlwitness/sender"
)

const (
	rebalanceLanes = 8
	rebalanceUsers = 40
)

// A flow is a topic that is written while its readers come and go: lanes whose seqs
// have holes at known places, and users of whom each does the same thing five times,
// spread over the whole time.
type flow struct {
	client *kafka.Client
	topic  string
	seqs   [rebalanceLanes]uint64
	holes  map[string]bool // lane and seq
	sent   int
}

// step produces some events to every lane, and leaves a hole now and then.
func (f *flow) step(t *testing.T, step int) {
	t.Helper()
	for lane := range f.seqs {
		var values [][]byte
		for i := range 20 {
			f.seqs[lane]++
			if i == 7 && (step+3*lane)%40 == 5 {
				f.holes[fmt.Sprint(lane, " ", f.seqs[lane])] = true
				continue
			}
			user := "app"
			if i == 0 && lane == 3 {
				user = fmt.Sprintf("u%d", step%rebalanceUsers)
			}
			values = append(values, fmt.Appendf(nil, `{"v":1,"type":"command","time":%q,"agent":"db1","boot":"b","lane":%d,"seq":%d,"user":%q}`,
				time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), lane, f.seqs[lane], user))
		}
		f.sent += len(values)
		within(t, 20*time.Second, "the leader of the partition", func() bool { return f.produce(t, lane, values) == nil })
	}
}

// produce is tried again only where nothing was taken: a test before may have killed
// the broker.
func (f *flow) produce(t *testing.T, lane int, values [][]byte) error {
	var records []kafka.Record
	for _, v := range values {
		records = append(records, kafka.Record{Value: kafka.NewBytes(v)})
	}
	r, err := f.client.Produce(t.Context(), &kafka.ProduceRequest{Topic: f.topic, Partition: sender.LanePartition("db1", lane, partitions),
		RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
	if err == nil {
		err = r.Error
	}
	if err != nil && !unled(err) {
		t.Fatal(err)
	}
	return err
}

// A crowd is the consumers of one group.
type crowd struct {
	program, dir, conf, group string
	outputs                   []string
}

func (c *crowd) join(t *testing.T) *exec.Cmd {
	t.Helper()
	path := filepath.Join(c.dir, fmt.Sprintf("member-%d", len(c.outputs)))
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c.outputs = append(c.outputs, path)
	cmd := exec.Command(c.program, "consume", "-c", c.conf)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

func (c *crowd) leave(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("a member: %v", err)
	}
}

// found are the findings of all members: how often each gap and each alert was told.
func (c *crowd) found(t *testing.T) (gaps, alerts map[string]int, ids map[string]map[string]bool) {
	t.Helper()
	gaps, alerts, ids = map[string]int{}, map[string]int{}, map[string]map[string]bool{}
	for _, path := range c.outputs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			var f struct {
				Type, ID       string
				Lane, From, To uint64
				Key            map[string]string
			}
			if json.Unmarshal([]byte(line), &f) != nil {
				continue // the last line of a member that was killed
			}
			switch f.Type {
			case "gap":
				for seq := f.From; seq <= f.To; seq++ {
					gaps[fmt.Sprint(f.Lane, " ", seq)]++
				}
			case "alert":
				user := f.Key["user"]
				alerts[user]++
				if ids[user] == nil {
					ids[user] = map[string]bool{}
				}
				ids[user][f.ID] = true
			case "agent_silent":
				t.Errorf("%s: %s", filepath.Base(path), line)
			}
		}
	}
	return gaps, alerts, ids
}

// TestRebalance: two members of a group read while events flow; one is killed with
// SIGKILL, another joins, one leaves. Every hole is told and none is invented, and what
// the rules had half counted is counted on. What was judged but not committed when the
// member died may be told twice; an alert then has the same id. It holds with a
// directory of state that the members share, and without.
func TestRebalance(t *testing.T) {
	name := topic(t, "rebalanced")
	program := program(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(`{rules: [{name: five, severity: low, when: 'user startsWith "u"', by: [user], count: 5, window: 1h}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var crowds []*crowd
	for _, common := range []bool{true, false} {
		c := &crowd{program: program, dir: t.TempDir(), group: fmt.Sprintf("shared-%t", common)}
		state := ""
		if common {
			state = t.TempDir()
		}
		c.conf = config(t, "consume: {brokers: [%q], topic: %s, group: %s, rules: %q, state: %q, session_timeout: 6s}\n", shared.Addr, name, c.group, rules, state)
		crowds = append(crowds, c)
	}
	f := &flow{client: &kafka.Client{Addr: kafka.TCP(shared.Addr), Timeout: 10 * time.Second}, topic: name, holes: map[string]bool{}}
	members := map[*crowd][]*exec.Cmd{}
	each := func(do func(c *crowd)) {
		for _, c := range crowds {
			do(c)
		}
	}
	const steps = 5 * rebalanceUsers
	for step := range steps {
		f.step(t, step)
		switch step {
		case 10, 25, 100: // the last one long after the death of one
			each(func(c *crowd) { members[c] = append(members[c], c.join(t)) })
		case 60:
			each(func(c *crowd) { members[c][0].Process.Kill(); members[c][0].Wait() })
		case 140:
			each(func(c *crowd) { c.leave(t, members[c][1]) })
		}
		time.Sleep(100 * time.Millisecond)
	}
	each(func(c *crowd) {
		within(t, time.Minute, "group "+c.group+" at the end of the topic", func() bool { return committedBy(t, c.group, name) == size(t, name) })
		c.leave(t, members[c][2])
	})
	for i, c := range crowds {
		gaps, alerts, ids := c.found(t)
		repeated := 0
		for hole := range f.holes {
			if gaps[hole] == 0 {
				t.Errorf("group %d: the hole %s was not told", i, hole)
			}
			repeated += max(gaps[hole]-1, 0)
		}
		for gap := range gaps {
			if !f.holes[gap] {
				t.Errorf("group %d: the hole %s was invented", i, gap)
			}
		}
		for n := range rebalanceUsers {
			user := fmt.Sprintf("u%d", n)
			if len(ids[user]) != 1 {
				t.Errorf("group %d: %d different alerts about %s", i, len(ids[user]), user)
			}
			repeated += max(alerts[user]-1, 0)
		}
		t.Logf("group %d: %d events, %d holes and %d alerts told, %d of them twice", i, f.sent, len(gaps), len(alerts), repeated)
	}
}
