//go:build linux

package kafka_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/freeport"
	"sqlwitness/bench/load"
)

// profiles is where BenchmarkSinks leaves a CPU profile of the agent for each sink:
//
//	go test ./bench/kafka -run '^$' -bench Sinks -benchtime 3x -profiles /tmp
//	go tool pprof -top /tmp/kafka.pprof
var profiles = flag.String("profiles", "", "directory for CPU profiles of the agent")

// How long a turn of BenchmarkSinks lasts: first unmeasured, then measured, then until
// everything is delivered.
const (
	turnWarm    = time.Second
	turnLoad    = 4 * time.Second
	turnDeliver = time.Second
)

// BenchmarkSinks is the CPU of the whole agent for each statement of a saturating
// sysbench, with a file, Kafka (acks=all, zstd) or a collector as its only sink. An
// iteration is a round in which each has its turn: the first of them changes, and the
// differences are those of one round.
func BenchmarkSinks(b *testing.B) {
	name := topic(b, fmt.Sprint("sinks", time.Now().UnixNano()))
	program(b)
	srv := server(b, nil, sysbenchUser)
	prepare := load.Sysbench{Test: "oltp_point_select", Threads: 8}
	if err := prepare.Prepare(b.Context(), target(srv, sysbenchUser)); err != nil {
		b.Fatal(err)
	}
	listen := freeport.Addr(b)
	start(b, nil, "receive", "-c", config(b, "receive: {listen: %q}\nsinks: [{type: stdout}]\n", listen))
	ways := []struct{ name, sink string }{
		{"file", fmt.Sprintf("{type: file, path: %q}", filepath.Join(b.TempDir(), "audit.jsonl"))},
		{"kafka", fmt.Sprintf("{type: kafka, brokers: [%q], topic: %s}", shared.Addr, name)},
		{"thrift", fmt.Sprintf("{type: thrift, collectors: [%q]}", listen)},
	}
	cost := map[string][]float64{} // ns for each statement, by round
	for round := 0; b.Loop(); round++ {
		for i := range ways {
			w := ways[(i+round)%len(ways)]
			// Two processors full of the load leave a collector too little for the usual queue.
			c := config(b, "capture: {interfaces: [lo], ports: [%d]}\nlimits: {queue_mib: 256}\nsinks: [%s]\n", srv.Port, w.sink)
			cpu, did, err := turn(b, c, w.name, target(srv, sysbenchUser))
			if err != nil {
				b.Fatal(err)
			}
			cost[w.name] = append(cost[w.name], float64(cpu.Nanoseconds())/float64(did.Queries))
			b.Logf("%-6s %6.0f statements/s, agent CPU %4.0f ns per statement", w.name, did.PerSecond, float64(cpu.Nanoseconds())/float64(did.Queries))
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, w := range ways {
		b.ReportMetric(median(cost[w.name]), w.name+"-ns/statement")
	}
	for _, w := range ways[1:] {
		var above []float64
		for i, ns := range cost[w.name] {
			above = append(above, ns-cost["file"][i])
		}
		b.ReportMetric(median(above), w.name+"-above-file-ns")
	}
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// turn runs an agent beside sysbench and returns what it cost while that ran. The
// agent must have lost nothing.
func turn(b *testing.B, config, name string, t load.Target) (time.Duration, load.SysbenchResult, error) {
	var did load.SysbenchResult
	argv := []string{program(b), "run", "-c", config}
	pprof := freeport.Addr(b)
	if *profiles != "" {
		argv = append(argv, "--pprof", pprof)
	}
	a, err := agent.Start(b.Context(), nil, argv...)
	if err != nil {
		return 0, did, err
	}
	defer a.Stop()
	bench := load.Sysbench{Test: "oltp_point_select", Threads: 8, Duration: turnWarm}
	if did, err = bench.Run(b.Context(), t); err != nil {
		return 0, did, err
	}
	time.Sleep(turnDeliver)
	before, warm := a.CPU(), did.Queries
	profiled := make(chan error, 1)
	go func() { profiled <- profile(pprof, name) }()
	bench.Duration = turnLoad
	if did, err = bench.Run(b.Context(), t); err != nil {
		return 0, did, err
	}
	time.Sleep(turnDeliver)
	cpu := a.CPU() - before
	if err := errors.Join(<-profiled, a.Stop()); err != nil {
		return 0, did, err
	}
	return cpu, did, whole(a.Stderr(), warm+did.Queries)
}

var deliveredEvents = regexp.MustCompile(`events +(\d+) = (\d+) to `)

// whole checks in the ledger that all statements were delivered.
func whole(ledger string, statements int64) error {
	m := deliveredEvents.FindStringSubmatch(ledger)
	if m == nil {
		return fmt.Errorf("no events in the ledger: %s", ledger)
	}
	delivered, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil || m[1] != m[2] || delivered < statements {
		return fmt.Errorf("not all of %d statements were delivered: %s", statements, ledger)
	}
	return nil
}

// profile fetches a CPU profile of the agent, if one is wanted.
func profile(pprof, name string) error {
	if *profiles == "" {
		return nil
	}
	resp, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", pprof, int(turnLoad.Seconds())))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.Create(filepath.Join(*profiles, name+".pprof"))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
