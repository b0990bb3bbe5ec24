// Golang runs the numbered script with go-sql-driver/mysql.
//
//	golang host=… port=… file=… mid=… big=… [dsn=PARAMETERS] [prepared=1]
//
// It prints what the driver told it, one JSON object per line; the fields are
// those of the type View. Prepared says that the parameters leave the driver to
// use prepared statements.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"sqlwitness/bench/clients"
)

func main() {
	log.SetFlags(0)
	options := map[string]string{}
	for _, arg := range os.Args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		options[key] = value
	}
	if err := run(context.Background(), options); err != nil {
		log.Fatal(err)
	}
}

// A client is one connection and the word of its statements with parameters.
type client struct {
	options  map[string]string
	prepared bool
	conn     *sql.Conn
	thread   uint64
}

func open(options map[string]string, user, password, db string) (*sql.DB, error) {
	dsn := fmt.Sprintf("%s:%s@tcp(%s:%s)/%s?multiStatements=true&%s", user, password, options["host"], options["port"], db, options["dsn"])
	pool, err := sql.Open("mysql", dsn)
	if err == nil {
		pool.SetMaxOpenConns(1)
	}
	return pool, err
}

func run(ctx context.Context, options map[string]string) error {
	mysql.RegisterLocalFile(options["file"])
	pool, err := open(options, "ann", "s3cret", "shop")
	if err != nil {
		return err
	}
	c := &client{options: options, prepared: options["prepared"] != ""}
	if c.conn, err = pool.Conn(ctx); err != nil {
		return err
	}
	if err := c.conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&c.thread); err != nil {
		return err
	}
	c.say(clients.View{Step: 1, Word: "Connect", User: "ann", DB: "shop"})
	if err := c.script(ctx); err != nil {
		return err
	}
	if err := c.refused(ctx); err != nil {
		return err
	}
	if err := errors.Join(c.conn.Close(), pool.Close()); err != nil {
		return err
	}
	c.say(clients.View{Step: 60, Word: "Quit"})
	return nil
}

// refused is a login with a wrong password.
func (c *client) refused(ctx context.Context) error {
	pool, err := open(c.options, "ann", "wrong", "shop")
	if err != nil {
		return err
	}
	c.say(clients.View{Step: 58, Word: "Refused", User: "ann", Error: code(pool.PingContext(ctx))})
	return pool.Close()
}

func (c *client) size(name string) int {
	n, _ := strconv.Atoi(c.options[name])
	return n
}

func (c *client) say(v clients.View) {
	v.Thread = c.thread
	line, err := json.Marshal(v)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}

// code is the server's error code, 0 without an error. Any other error ends the
// program.
func code(err error) *int64 {
	var refused *mysql.MySQLError
	n := int64(0)
	if errors.As(err, &refused) {
		n = int64(refused.Number)
	} else if err != nil {
		log.Fatal(err)
	}
	return &n
}
