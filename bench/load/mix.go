package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A mixer chooses the statements of one connection. Each carries the
// connection's number and its own, so that no two of a run are alike.
type mixer struct {
	*client
	rng   *rand.Rand
	conn  int
	n     int  // statements made
	inTxn bool // between BEGIN and its end
}

// kinds are the parts of the mix with their weights.
var kinds = []struct {
	weight int
	send   func(*mixer, context.Context) error
}{
	{300, (*mixer).pointSelect},
	{60, (*mixer).noRows},
	{12, (*mixer).thousandRows},
	{40, (*mixer).nulls},
	{150, (*mixer).insertParams},
	{100, (*mixer).update},
	{30, (*mixer).remove},
	{40, (*mixer).failure},
	{50, (*mixer).several},
	{30, (*mixer).switchSchema},
	{30, (*mixer).keepAlive},
	{40, (*mixer).transaction},
	{10, (*mixer).emptyish},
	{40, (*mixer).unusual},
	{6, (*mixer).long},
	{6, (*mixer).blob},
	{20, (*mixer).call},
	{4, (*mixer).file},
}

func (m *mixer) next(ctx context.Context) error {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	pick := m.rng.IntN(total)
	for _, k := range kinds {
		if pick -= k.weight; pick < 0 {
			m.n++
			return k.send(m, ctx)
		}
	}
	panic("weights do not add up")
}

// finish leaves nothing open and disconnects.
func (m *mixer) finish(ctx context.Context) error {
	if m.inTxn {
		if err := m.exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
	}
	return m.close()
}

// tag is what makes a statement unlike any other.
func (m *mixer) tag() string { return fmt.Sprintf("/* %d-%d */", m.conn, m.n) }

func (m *mixer) pointSelect(ctx context.Context) error {
	return m.query(ctx, fmt.Sprintf("SELECT n, s FROM shop.thousand WHERE n = %d %s", 1+m.rng.IntN(1000), m.tag()), nil)
}

func (m *mixer) noRows(ctx context.Context) error {
	return m.query(ctx, fmt.Sprintf("select %s * from shop.thousand where n = -%d", m.tag(), m.n), nil)
}

func (m *mixer) thousandRows(ctx context.Context) error {
	return m.query(ctx, "SELECT * FROM shop.thousand ORDER BY n "+m.tag(), nil)
}

func (m *mixer) nulls(ctx context.Context) error {
	return m.query(ctx, fmt.Sprintf("SELECT NULL, %d, NULL, '' UNION ALL SELECT %d, NULL, 'ÿ', NULL", m.n, m.conn), nil)
}

// insertParams has values that are hard to quote, filled in by the driver.
func (m *mixer) insertParams(ctx context.Context) error {
	bodies := []any{
		"it's a \"quote\" \\ and a backslash", "two\nlines\r\nand a tab\t.", "naïve café ☕ 漢字 🐬",
		[]byte{0, 1, 0x1a, '\'', '"', '\\', 0xff, 0xfe, '\n', 0x80}, nil, "", strings.Repeat("a'b", m.rng.IntN(100)),
		"\n261130 10:52:27 looks like a log", "/* not a comment */ -- nor this; # nor this",
	}
	body, extra := bodies[m.rng.IntN(len(bodies))], bodies[m.rng.IntN(3)]
	return m.exec(ctx, "INSERT INTO shop.note (conn, n, body, extra) VALUES (?, ?, ?, ?)", int64(m.conn), int64(m.n), body, extra)
}

// update changes from 0 to 10 rows of the connection's own.
func (m *mixer) update(ctx context.Context) error {
	return m.exec(ctx, fmt.Sprintf("UPDATE shop.stock SET left_over = %d WHERE conn = %d AND item <= %d", m.n, m.conn, m.rng.IntN(11)))
}

func (m *mixer) remove(ctx context.Context) error {
	return m.exec(ctx, fmt.Sprintf("DELETE FROM shop.note WHERE conn = %d AND n < %d LIMIT 5", m.conn, m.n))
}

// failure draws one of the server's refusals.
func (m *mixer) failure(ctx context.Context) error {
	switch m.rng.IntN(6) {
	case 0:
		return m.exec(ctx, "SELEC 'syntax' "+m.tag())
	case 1:
		return m.query(ctx, "SELECT * FROM shop.nowhere "+m.tag(), nil)
	case 2:
		return m.exec(ctx, "INSERT INTO shop.thousand VALUES (17, 'twice') "+m.tag())
	case 3:
		return m.query(ctx, fmt.Sprintf("SELECT no_such_column_%d FROM shop.thousand", m.n), nil)
	case 4:
		return m.use(ctx, fmt.Sprintf("nowhere-%d-%d", m.conn, m.n))
	default:
		return m.query(ctx, "SELECT (SELECT n FROM shop.thousand) "+m.tag(), nil)
	}
}

// several statements in one command, the third kind with one that fails.
func (m *mixer) several(ctx context.Context) error {
	update := fmt.Sprintf("UPDATE shop.stock SET left_over = -%d WHERE conn = %d", m.n, m.conn)
	switch m.rng.IntN(3) {
	case 0:
		return m.exec(ctx, update+" AND item = 1;"+update+" AND item > 4 ; SET @a = 'x;y'")
	case 1:
		return m.query(ctx, fmt.Sprintf("SELECT %d; SELECT n FROM shop.thousand WHERE n < 4; %s AND item = 2", m.n, update), nil)
	default:
		return m.query(ctx, fmt.Sprintf("SELECT %d; SELECT * FROM shop.nowhere; SELECT 'never run'", m.n), nil)
	}
}

func (m *mixer) switchSchema(ctx context.Context) error {
	return m.use(ctx, schemas[m.rng.IntN(len(schemas))])
}

func (m *mixer) keepAlive(ctx context.Context) error { return m.ping(ctx) }

// transaction opens one, or ends the open one.
func (m *mixer) transaction(ctx context.Context) error {
	text := []string{"START TRANSACTION", "BEGIN"}
	if m.inTxn {
		text = []string{"COMMIT", "ROLLBACK"}
	}
	m.inTxn = !m.inTxn
	return m.exec(ctx, text[m.rng.IntN(2)]+" "+m.tag())
}

// emptyish statements hold nothing to run.
func (m *mixer) emptyish(ctx context.Context) error {
	return m.exec(ctx, []string{"", " ", ";", " \n;; ", "-- nothing here", "/* only a comment */"}[m.rng.IntN(6)])
}

// unusual forms: blanks around, several lines, comments that are code.
func (m *mixer) unusual(ctx context.Context) error {
	switch m.rng.IntN(7) {
	case 0:
		return m.query(ctx, fmt.Sprintf("  \n\t select %d, 'trailing' ; \n ; ", m.n), nil)
	case 1:
		return m.query(ctx, fmt.Sprintf("SELECT\n  %d,\n\t'two\n\n lines' -- the end\n", m.n), nil)
	case 2:
		return m.exec(ctx, fmt.Sprintf("SET @last = %d, @text = 'ünïcode'", m.n))
	case 3:
		return m.query(ctx, "SHOW /*!50000 FULL */ TABLES FROM shop LIKE 'no%' "+m.tag(), nil)
	case 4:
		return m.query(ctx, "EXPLAIN SELECT * FROM shop.thousand "+m.tag(), nil)
	case 5:
		return m.exec(ctx, fmt.Sprintf("DO SLEEP(0.00%d)", m.rng.IntN(3)))
	default:
		return m.exec(ctx, "SELECT n INTO @x FROM shop.thousand WHERE n = 3 "+m.tag())
	}
}

// long statements fill several segments.
func (m *mixer) long(ctx context.Context) error { return m.big(ctx, 5_000+m.rng.IntN(150_000)) }

func (m *mixer) big(ctx context.Context, bytes int) error {
	m.n++
	var b strings.Builder
	fmt.Fprintf(&b, "SELECT LENGTH('%d:", m.n)
	for i := 0; b.Len() < bytes-6; i++ {
		fmt.Fprintf(&b, "%d é ", i)
	}
	b.WriteString("') ")
	return m.query(ctx, b.String()+m.tag(), nil)
}

// blob returns one wide row.
func (m *mixer) blob(ctx context.Context) error {
	return m.query(ctx, fmt.Sprintf("SELECT %d, REPEAT('r', %d), NULL", m.n, m.rng.IntN(300_000)), nil)
}

func (m *mixer) call(ctx context.Context) error {
	return m.query(ctx, fmt.Sprintf("CALL mysql.two_results(%d) %s", m.n, m.tag()), nil)
}

func (m *mixer) file(ctx context.Context) error {
	var lines strings.Builder
	for i := range 1 + m.rng.IntN(20) {
		fmt.Fprintf(&lines, "%d\t-%d\tbody %d\t\\N\n", m.conn, m.n*100+i, i)
	}
	statement := func(reader string) string {
		return fmt.Sprintf("LOAD DATA LOCAL INFILE '%s' INTO TABLE shop.note %s", reader, m.tag())
	}
	return m.loadFile(ctx, statement, strings.NewReader(lines.String()))
}
