//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/bench/losscheck"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/truth"
)

const password = "demo-s3cret"

// showLive runs two agents side by side: one writes for the eye until the shop
// closes, the other writes JSON from first to last and is counted.
func showLive(ctx context.Context, binary string, statements int, pause time.Duration) (losscheck.Result, error) {
	var res losscheck.Result
	srv, err := mariadb.Start(ctx, serverOptions())
	if err != nil {
		return res, err
	}
	defer srv.Stop()
	target := load.Target{Addr: srv.Addr("127.0.0.1"), Users: load.ShopUsers, Password: password}

	path := filepath.Join(srv.Dir, "events.jsonl")
	out, err := os.Create(path)
	if err != nil {
		return res, err
	}
	defer out.Close()
	args := []string{binary, "run", "--interface", "lo", "--port", fmt.Sprint(srv.Port)}
	counted, err := agent.Start(ctx, out, append(args, "--output", "json")...)
	if err != nil {
		return res, err
	}
	defer counted.Stop()
	shop, err := showShop(ctx, append(args, "--output", "text"), target, pause)
	if err != nil {
		return res, err
	}

	fmt.Printf("\nNow %d numbered statements over 8 connections, as fast as they go.\n", statements)
	before := counted.CPU()
	if err := load.Numbered(ctx, target, 8, statements); err != nil {
		return res, err
	}
	time.Sleep(100 * time.Millisecond) // some ticks
	cpu := counted.CPU() - before
	if err := counted.Stop(); err != nil {
		return res, err
	}
	res, err = judge(path, shop, statements)
	res.CPU, res.Measured = cpu, statements
	return res, err
}

func serverOptions() mariadb.Options {
	o := mariadb.Options{TLS: true}
	for _, u := range load.ShopUsers {
		o.Users = append(o.Users, mariadb.User{Name: u, Password: password})
	}
	return o
}

// showShop lets an agent write to the terminal while the shop is open.
func showShop(ctx context.Context, argv []string, t load.Target, pause time.Duration) ([]truth.Session, error) {
	fmt.Println("A MariaDB of our own runs at " + t.Addr + ", and sqlwitness listens on lo. When a client sends\n" +
		"    INSERT INTO customer (email, card) VALUES ('maria@example.com', '4111 1111 1111 1111')\n" +
		"the audit says what happened and keeps the values to itself:")
	fmt.Println()
	shown, err := agent.Start(ctx, os.Stdout, argv...)
	if err != nil {
		return nil, err
	}
	defer shown.Stop()
	shop, err := load.Shop(ctx, t, pause)
	if err != nil {
		return nil, err
	}
	if err := otherSessions(ctx, t, nil); err != nil {
		return nil, err
	}
	time.Sleep(100 * time.Millisecond)
	return shop, shown.Stop()
}

// otherSessions are a login that fails, and one whose statements TLS hides.
func otherSessions(ctx context.Context, t load.Target, prefix []string) error {
	wrong := t
	wrong.Users, wrong.Password = []string{"web"}, "guessed"
	if out, err := load.CLI(ctx, wrong, prefix, "SELECT 1"); err != nil {
		return fmt.Errorf("failed login: %w: %s", err, out)
	}
	if out, err := load.CLI(ctx, t, prefix, "SELECT 'nobody sees this'", "--ssl"); err != nil {
		return fmt.Errorf("TLS session: %w: %s", err, out)
	}
	return nil
}

// judge counts what the events in path tell of the shop and of the numbers.
func judge(path string, shop []truth.Session, statements int) (losscheck.Result, error) {
	events, err := truth.EventsFile(path)
	if err != nil {
		return losscheck.Result{}, err
	}
	report := truth.Compare(shop, events, truth.Options{Masked: true, Only: "Query", Others: true})
	if !report.OK() {
		fmt.Println(report)
	}
	f, err := os.Open(path)
	if err != nil {
		return losscheck.Result{}, err
	}
	defer f.Close()
	numbered, err := losscheck.Count(f, statements)
	return losscheck.FromReport(report).Add(numbered), err
}
