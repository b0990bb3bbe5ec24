//go:build linux

// Generate is one end of a load without a database: "serve" answers, "load" sends.
// It ends with a line that says what it did; with -json that is what package
// generator's Run reads.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sqlwitness/bench/generator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	verb, args := "", []string(nil)
	if len(os.Args) > 1 {
		verb, args = os.Args[1], os.Args[2:]
	}
	var err error
	switch verb {
	case "serve":
		err = serve(ctx, args)
	case "load":
		err = load(ctx, args)
	default:
		fmt.Fprintln(os.Stderr, "generate: say serve or load; -h after either lists its flags")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, args []string) error {
	var cfg generator.ServerConfig
	f := flag.NewFlagSet("serve", flag.ExitOnError)
	f.StringVar(&cfg.Addr, "addr", "127.0.0.1:0", "IP address and port to listen on; port 0 is any")
	f.StringVar(&cfg.User, "user", "bench", "the account")
	f.StringVar(&cfg.Password, "password", "b3nch", "its password")
	f.IntVar(&cfg.Rows, "rows", 1, "rows of each result")
	f.IntVar(&cfg.RowBytes, "row-bytes", 119, "bytes of each row")
	f.Parse(args)
	return generator.Serve(ctx, cfg, func(a net.Addr) { fmt.Println(a) })
}

func load(ctx context.Context, args []string) error {
	var cfg generator.LoadConfig
	f := flag.NewFlagSet("load", flag.ExitOnError)
	f.StringVar(&cfg.Addr, "addr", "127.0.0.1:3306", "IP address and port of the server")
	f.StringVar(&cfg.User, "user", "bench", "the account")
	f.StringVar(&cfg.Password, "password", "b3nch", "its password")
	f.IntVar(&cfg.Conns, "conns", 8, "connections")
	f.Float64Var(&cfg.Rate, "rate", 5000, "statements per second over all connections; 0 is as fast as they are answered")
	f.DurationVar(&cfg.Duration, "duration", 5*time.Second, "how long")
	f.IntVar(&cfg.Depth, "depth", 1, "commands in flight per connection")
	f.IntVar(&cfg.SQLBytes, "sql-bytes", 0, "about the length of a statement; 0 is the shortest")
	f.IntVar(&cfg.Prepared, "prepared", 0, "statements to prepare on each connection and to execute in turn; 0 is the text protocol")
	asJSON := f.Bool("json", false, "speak with a program: say {} and wait for a line before the first statement, say the result and wait for a line before the connections are closed")
	f.Parse(args)
	if !*asJSON {
		res, err := generator.Load(ctx, cfg, func() {}, nil)
		if err == nil {
			fmt.Println(res)
		}
		return err
	}
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	say := func(v any) {
		out.Encode(v)
		in.ReadString('\n')
	}
	_, err := generator.Load(ctx, cfg, func() { say(struct{}{}) }, func(res generator.LoadResult) { say(res) })
	return err
}
