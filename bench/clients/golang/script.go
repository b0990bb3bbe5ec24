package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"sqlwitness/bench/clients"
)

const insert = "INSERT INTO kinds (id,i8,i16,i32,i64,u8,u16,u32,u64,f,d,n,dt,ts,ti,s,b) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"

// script is the numbered script but for login and end.
func (c *client) script(ctx context.Context) error {
	c.exec(ctx, 3, "TRUNCATE TABLE kinds")
	if err := c.inserts(ctx); err != nil {
		return err
	}
	c.query(ctx, 22, "SELECT * FROM kinds WHERE id < ? AND id > ? ORDER BY id", 6, 0)
	c.query(ctx, 23, "SELECT id, '?', `s` /* ? */ FROM kinds WHERE s = ? OR s IS NULL", "")
	c.query(ctx, 24, "SELECT id FROM kinds WHERE id = ?", -1)
	c.query(ctx, 25, "CALL plain(?)", 3)
	c.query(ctx, 30, "SELEC 1")
	c.query(ctx, 31, "SELECT * FROM nowhere")
	c.exec(ctx, 32, "INSERT INTO kinds (id) VALUES (1)")
	for i, text := range []string{"SELEC ?", "SELECT * FROM nowhere WHERE a = ?"} {
		_, err := c.conn.PrepareContext(ctx, text)
		c.say(clients.View{Step: 33 + i, Word: "Prepare", Text: text, Error: code(err)})
	}
	c.query(ctx, 40, "SELECT 1; INSERT INTO kinds (id) VALUES (50),(51); SELECT id FROM kinds WHERE id >= 50; INSERT INTO kinds (id) VALUES (52)")
	c.query(ctx, 41, "CALL several(4, @total)")
	c.exec(ctx, 42, "LOAD DATA LOCAL INFILE '"+c.options["file"]+"' INTO TABLE loaded FIELDS TERMINATED BY ','")
	c.query(ctx, 43, "SELECT * FROM loaded")
	c.say(clients.View{Step: 50, Word: "Ping", Error: code(c.conn.PingContext(ctx))})
	c.exec(ctx, 51, "USE other")
	c.query(ctx, 52, "SELECT DATABASE()")
	return nil
}

func (c *client) inserts(ctx context.Context) error {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	stamp := time.Date(2024, 2, 29, 23, 59, 58, 123456000, time.UTC)
	mid, big := c.size("mid"), c.size("big")
	rows := [][]any{
		{1, int8(-128), int16(-32768), int32(-1 << 31), int64(-1 << 63), uint8(255), uint16(65535), uint32(1<<32 - 1), uint64(1<<63 + 5),
			float32(1.5), -2.25e-10, "-12345678901234567890.123456", "2024-02-29", stamp, "-30:00:01.000005", "it's \"quoted\", a \\ and a ?", all},
		{2, 127, 32767, 1<<31 - 1, int64(1<<63 - 1), 0, 1, 2, uint64(3), 0.0, 1e300, "0.000001", stamp.Truncate(24 * time.Hour),
			stamp.Truncate(time.Second), "08:07:06", "", []byte{}},
		append([]any{3}, make([]any, 16)...),
		{4, nil, true, nil, 2, nil, 3, nil, 4, nil, 0.5, nil, nil, nil, nil, "d\u00e9 \u4e2d \U0001f600", nil},
		append(append([]any{5}, make([]any, 14)...), strings.Repeat("x", 255), all),
		append(append([]any{6}, make([]any, 14)...), strings.Repeat("m", mid), bytes.Repeat([]byte("n"), mid)),
		append(append([]any{7}, make([]any, 14)...), strings.Repeat("B", big), nil),
	}
	if !c.prepared {
		for i, row := range rows {
			c.exec(ctx, 10+i, insert, row...)
		}
		return nil
	}
	s, err := c.conn.PrepareContext(ctx, insert)
	if err != nil {
		return err
	}
	defer s.Close()
	for i, row := range append(rows, rows[2]) {
		c.executed(10+i, insert, row, func() (sql.Result, error) { return s.ExecContext(ctx, row...) })
	}
	return nil
}

func (c *client) exec(ctx context.Context, step int, text string, args ...any) {
	c.executed(step, text, args, func() (sql.Result, error) { return c.conn.ExecContext(ctx, text, args...) })
}

func (c *client) executed(step int, text string, args []any, run func() (sql.Result, error)) {
	result, err := run()
	v := c.view(step, text, args, err)
	if err == nil {
		n, _ := result.RowsAffected()
		v.Affected = &n
	}
	c.say(v)
}

func (c *client) query(ctx context.Context, step int, text string, args ...any) {
	rows, err := c.conn.QueryContext(ctx, text, args...)
	v := c.view(step, text, args, err)
	if err == nil {
		n := int64(0)
		for more := true; more; more = rows.NextResultSet() {
			for rows.Next() {
				n++
			}
		}
		rows.Close()
		v.Rows = &n
	}
	c.say(v)
}

func (c *client) view(step int, text string, args []any, err error) clients.View {
	v := clients.View{Step: step, Word: "Query", Text: text, Error: code(err)}
	if len(args) == 0 {
		return v
	}
	v.Word = "Interpolated"
	if c.prepared {
		v.Word = "Execute"
	}
	for _, a := range args {
		v.Params = append(v.Params, printed(a))
	}
	return v
}

// printed is a bound value as MySQL prints it, bytes in hex behind \x.
func printed(value any) *string {
	var s string
	switch v := value.(type) {
	case nil:
		return nil
	case []byte:
		s = `\x` + hex.EncodeToString(v)
	case time.Time: // the driver sends midnight as a date
		s = strings.TrimSuffix(v.Format("2006-01-02 15:04:05.000000"), " 00:00:00.000000")
	case bool:
		s = "1"
	default:
		s = fmt.Sprint(v)
	}
	return &s
}
