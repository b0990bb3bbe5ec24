//go:build linux

// Record writes the recordings of bench/testdata/clients: each client of
// bench/clients, with small values, and scenes that no client plays on its own,
// against a private MariaDB on port 3306. Beside each recording it puts what the
// server's logs say of it.
//
//	sudo go run ./bench/clients/record [-out DIR] [-port N] [NAME…]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"

	"sqlwitness/bench/clients"
	"sqlwitness/bench/mariadb"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", "bench/testdata/clients", "directory of the recordings")
	port := flag.Int("port", 3306, "port of the server")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := record(ctx, *out, *port, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// record plays the scenes with the given names, or all.
func record(ctx context.Context, out string, port int, names []string) error {
	if err := mariadb.Ensure(ctx, append(mariadb.Programs(), "tcpdump")...); err != nil {
		return err
	}
	kits, err := clients.Install(ctx)
	if err != nil {
		return err
	}
	o := mariadb.Options{Port: port, GeneralLog: true, SlowLog: true, Audit: true, TLS: true, Init: clients.Schema, Args: []string{"--proxy-protocol-networks=*"}}
	for _, name := range clients.Accounts {
		o.Users = append(o.Users, mariadb.User{Name: name, Password: clients.Password})
	}
	srv, err := mariadb.Start(ctx, o)
	if err != nil {
		return err
	}
	defer srv.Stop()
	dir, err := os.MkdirTemp("", "sqlwitness-record-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := stage{ctx: ctx, kits: kits, dir: dir, port: port, logs: logs{srv.GeneralLog, srv.SlowLog, srv.AuditLog}, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	for _, scene := range s.scenes() {
		if len(names) > 0 && !slices.Contains(names, scene.name) {
			continue
		}
		size, err := s.recordScene(scene, filepath.Join(out, scene.name))
		if err != nil {
			return fmt.Errorf("%s: %w", scene.name, err)
		}
		log.Printf("%-32s %7d bytes", scene.name, size)
	}
	return nil
}
