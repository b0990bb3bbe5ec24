//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"

	"sqlwitness/bench/clients"
)

// A stage is what the scenes are played on.
type stage struct {
	ctx  context.Context
	kits clients.Kits
	dir  string
	port int
	addr string // of the server
	logs logs   // of the server
}

// A scene is one recording.
type scene struct {
	name string
	play func() error
}

// scenes are all recordings. The clients' own scripts come first, then one
// subject each.
func (s *stage) scenes() []scene {
	var scenes []scene
	byName := map[string]clients.Client{}
	for _, c := range clients.All() {
		byName[c.Name] = c
		scenes = append(scenes, s.client(c.Name, c))
	}
	return append(scenes,
		s.client("charset-gbk-pymysql", byName["pymysql"], "charset=gbk"),
		s.client("charset-gbk-connectorpython", byName["connectorpython-pure"], "charset=gbk", "collation=gbk_chinese_ci"),
		s.client("charset-latin1-pymysql", byName["pymysql"], "charset=latin1"),
		s.client("tls-pymysql", byName["pymysql"], "tls=1"),
		s.client("tls-connectorj", byName["connectorj-prepared"], "tls=1"),
		s.client("tls-mariadb-cli", byName["mariadb-cli"], "--ssl", "--disable-ssl-verify-server-cert"),
		scene{"proxy-v1", func() error { return s.proxied(byName["gosqldriver-prepared"], proxyV1, false) }},
		scene{"proxy-v2", func() error { return s.proxied(byName["gosqldriver-prepared"], proxyV2, false) }},
		scene{"proxy-v1-late", func() error { return s.proxied(byName["gosqldriver-prepared"], proxyV1, true) }},
		scene{"proxy-v2-late", func() error { return s.proxied(byName["gosqldriver-prepared"], proxyV2, true) }},
		scene{"commands", s.commands},
		scene{"statements", s.statements},
		scene{"setnames-gbk", s.setNames},
		scene{"killed", s.killed},
		scene{"progress", s.progress},
	)
}

// client is the script of a client, with more arguments.
func (s *stage) client(name string, c clients.Client, args ...string) scene {
	return scene{name, func() error { return s.run(c, s.port, args...) }}
}

func (s *stage) run(c clients.Client, port int, args ...string) error {
	_, err := s.kits.Run(s.ctx, c, clients.Job{Host: "127.0.0.1", Port: port, Dir: s.dir, Sizes: clients.SmallSizes, Args: args})
	return err
}

// The client of a proxied connection, from the ranges for documentation.
const proxiedClient, proxiedServer = "192.0.2.17", "198.51.100.5"

// proxyV1 is a PROXY header as text.
// https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt, section 2.1
var proxyV1 = []byte("PROXY TCP4 " + proxiedClient + " " + proxiedServer + " 56324 3306\r\n")

// proxyV2 is the same header in binary, section 2.2.
var proxyV2 = []byte("\r\n\r\n\x00\r\nQUIT\n" + // signature
	"\x21" + // version 2, PROXY
	"\x11" + // TCP over IPv4
	"\x00\x0c" + // 12 bytes follow
	"\xc0\x00\x02\x11" + "\xc6\x33\x64\x05" + "\xdc\x04" + "\x0c\xea")

// proxied runs a client through a relay that writes a header in front of each
// connection: at once or, late, when the server's greeting is there, for which
// MariaDB does not wait either.
func (s *stage) proxied(c clients.Client, header []byte, late bool) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go s.relay(from, header, late)
		}
	}()
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	return s.run(c, n)
}

func (s *stage) relay(from net.Conn, header []byte, late bool) error {
	defer from.Close()
	to, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err
	}
	defer to.Close()
	var greeting []byte
	if late {
		buf := make([]byte, 4096)
		n, err := to.Read(buf)
		if err != nil {
			return err
		}
		greeting = buf[:n]
	}
	if _, err := to.Write(header); err != nil {
		return err
	}
	if _, err := from.Write(greeting); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(from, to)
		done <- errors.Join(err, from.Close())
	}()
	_, err = io.Copy(to, from)
	return errors.Join(err, to.(*net.TCPConn).CloseWrite(), <-done)
}
