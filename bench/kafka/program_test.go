//go:build linux

package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/mariadb"
)

// build makes the program, once, in a directory that TestMain removes.
var build func() (path string, err error)

// builder returns a function that builds the program at its first call, and one that
// removes it.
func builder() (build func() (string, error), remove func()) {
	dir := ""
	build = sync.OnceValues(func() (string, error) {
		var err error
		if dir, err = os.MkdirTemp("", "sqlwitness-program-"); err != nil {
			return "", err
		}
		return agent.Build(context.Background(), dir)
	})
	return build, func() {
		if dir != "" {
			os.RemoveAll(dir)
		}
	}
}

// program is the path of the program, as a release is built.
func program(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("capturing needs root")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// server starts a MariaDB that ends with the test. All users have userPassword.
func server(t testing.TB, args []string, users ...string) *mariadb.Server {
	t.Helper()
	if err := mariadb.Ensure(t.Context(), append(mariadb.Programs(), "sysbench")...); err != nil {
		t.Fatal(err)
	}
	o := mariadb.Options{Args: args}
	for _, u := range users {
		o.Users = append(o.Users, mariadb.User{Name: u, Password: userPassword})
	}
	srv, err := mariadb.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	return srv
}

const userPassword = "s3cret"

// config writes a configuration file and returns its path.
func config(t testing.TB, format string, args ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sqlwitness.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs the program; what it returns ends it and checks that it was well.
func start(t testing.TB, stdout *bytes.Buffer, args ...string) func() {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Stderr = os.Stderr
	if stdout != nil {
		cmd.Stdout = stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return func() {
		t.Helper()
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", args[0], err)
		}
	}
}

// A consumption is what 'sqlwitness consume' says in the end of a topic, and what
// it found on the way.
type consumption struct {
	Events, Missing, Explained, Repeated, Late, Bad int
	found                                           map[string]int // by type
}

// consume runs the program's consumer on topics, all at once, until it has read
// them to their ends.
func consume(t testing.TB, topics ...string) []consumption {
	t.Helper()
	outs, stops := make([]bytes.Buffer, len(topics)), make([]func(), len(topics))
	for i, name := range topics {
		stops[i] = start(t, &outs[i], "consume", "-c", config(t, "consume: {brokers: [%q], topic: %s, group: %s}\n", shared.Addr, name, name))
	}
	all := make([]consumption, len(topics))
	for i, name := range topics {
		within(t, 2*time.Minute, "the consumer at the end of "+name, func() bool { return committed(t, name) == size(t, name) })
		stops[i]()
		all[i] = readFindings(t, outs[i].Bytes())
	}
	return all
}

func readFindings(t testing.TB, out []byte) consumption {
	t.Helper()
	c := consumption{found: map[string]int{}}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	for _, line := range lines {
		var f struct{ Type string }
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		c.found[f.Type]++
	}
	if err := json.Unmarshal(lines[len(lines)-1], &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// size is how many records a topic has; nothing is ever deleted from it.
func size(t testing.TB, topic string) (n int64) {
	t.Helper()
	for p := range partitions {
		n += end(t, topic, p)
	}
	return n
}

func end(t testing.TB, topic string, partition int) int64 {
	t.Helper()
	var last int64
	within(t, 30*time.Second, "the leader of the partition", func() (ok bool) {
		var err error
		if last, err = lastOffset(t.Context(), topic, partition); err != nil && !unled(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	return last
}

// unled tells that a partition is not led yet, or not any more: a broker that has
// just started says so, and has done nothing.
func unled(err error) bool {
	return errors.Is(err, kafka.NotLeaderForPartition) || errors.Is(err, kafka.LeaderNotAvailable) || errors.Is(err, kafka.UnknownTopicOrPartition)
}

func lastOffset(ctx context.Context, topic string, partition int) (int64, error) {
	conn, err := kafka.DialLeader(ctx, "tcp", shared.Addr, topic, partition)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ReadLastOffset()
}

// committed is how many records of a topic the group of its name has read.
func committed(t testing.TB, topic string) int64 { return committedBy(t, topic, topic) }

func committedBy(t testing.TB, group, topic string) (n int64) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(shared.Addr), Timeout: 10 * time.Second}
	resp, err := client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0, 1, 2, 3}}})
	if err != nil {
		return 0
	}
	for _, p := range resp.Topics[topic] {
		n += max(p.CommittedOffset, 0)
	}
	return n
}

// within waits for something that must come.
func within(t testing.TB, d time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", d, what)
		}
	}
}
