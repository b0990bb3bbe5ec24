// Command gomysqlserver serves the MySQL protocol as github.com/dolthub/go-mysql-server
// speaks it, which shares no code with MySQL, MariaDB or sqlwitness. It has a module
// of its own, so that its dependencies are nobody else's.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"strings"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/sirupsen/logrus"
)

func main() {
	init := flag.String("init", "", "statements to run first, separated by semicolons")
	flag.Parse()
	logrus.SetLevel(logrus.FatalLevel)
	if err := serve(*init); err != nil {
		log.Fatal(err)
	}
}

// serve listens on a free port of the loopback device, which it prints.
func serve(statements string) error {
	provider := memory.NewDBProvider(memory.NewDatabase("shop"))
	engine := sqle.NewDefault(provider)
	session := memory.NewSession(sql.NewBaseSession(), provider)
	ctx := sql.NewContext(context.Background(), sql.WithSession(session))
	accounts := engine.Analyzer.Catalog.MySQLDb
	accounts.AddRootAccount()
	accounts.SetPersister(&mysql_db.NoopPersister{})
	session.SetClient(sql.Client{User: "root", Address: "localhost"})
	ctx.SetCurrentDatabase("shop")
	for text := range strings.SplitSeq(statements, ";") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		_, rows, _, err := engine.Query(ctx, text)
		if err == nil {
			_, err = sql.RowIterToRows(ctx, rows)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	cfg := server.Config{Protocol: "tcp", Address: listener.Addr().String(), Listener: listener}
	s, err := server.NewServer(cfg, engine, sql.NewContext, memory.NewSessionBuilder(provider), nil)
	if err != nil {
		return err
	}
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	return s.Start()
}
