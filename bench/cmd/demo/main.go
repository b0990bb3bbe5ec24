//go:build linux

// Demo shows sqlwitness at work in under a minute: a private MariaDB, the agent
// on the loopback device, a small shop in front of the eyes, then a few thousand
// numbered statements whose fate is counted. It exits with 1 if one was lost.
//
// Without root or MariaDB it audits a recording of the same shop.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"sqlwitness/bench/losscheck"
	"sqlwitness/bench/mariadb"
)

// errLost is the demo's own failure: the agent did not tell the truth.
var errLost = errors.New("the audit is not complete")

func main() {
	binary := flag.String("binary", "bin/sqlwitness", "the program to show")
	recording := flag.String("recording", "bench/testdata/demo.pcap", "capture `file` to show where live capture is not possible")
	record := flag.String("record", "", "make a recording of the shop in `file`, and nothing else")
	replay := flag.Bool("replay", false, "show the recording even where live capture is possible")
	statements := flag.Int("statements", 5000, "how many numbered statements to send")
	pause := flag.Duration("pause", 60*time.Millisecond, "between the shop's statements")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *binary, *recording, *record, *replay, *statements, *pause); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, recording, record string, replay bool, statements int, pause time.Duration) error {
	if record != "" {
		return makeRecording(ctx, record)
	}
	var res losscheck.Result
	var err error
	if why := notLive(ctx, replay); why != "" {
		fmt.Printf("Not live (%s): this is a recording, %s.\n\n", why, recording)
		res, err = showRecording(ctx, binary, recording)
	} else {
		res, err = showLive(ctx, binary, statements, pause)
	}
	if err != nil {
		return err
	}
	fmt.Println(res)
	if !res.OK() {
		return errLost
	}
	return nil
}

// notLive says why live capture is not possible, or nothing.
func notLive(ctx context.Context, replay bool) string {
	if replay {
		return "asked for"
	}
	if os.Getuid() != 0 {
		return "live capture needs root: sudo make demo"
	}
	if err := mariadb.Ensure(ctx, mariadb.Programs()...); err != nil {
		return err.Error()
	}
	return ""
}
