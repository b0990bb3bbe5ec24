package sender

import (
	"strings"
	"testing"
)

func TestErrorText(t *testing.T) {
	tests := []struct {
		code       uint16
		text, want string
	}{
		{1062, "Duplicate entry 'alice@x' for key 'users.email'", "Duplicate entry '?' for key 'users.email'"},
		{1062, "Duplicate entry 'a' for key 'b' for key 'PRIMARY'", "Duplicate entry '?' for key 'PRIMARY'"},
		{1062, "Duplicate entry 'it's' for key 'k1'", "Duplicate entry '?' for key 'k1'"},
		{1062, "Entrada duplicada 'x' para la clave 'k1'", "Entrada duplicada ?"},
		{1146, "Table 'shop.orders_2' doesn't exist", "Table 'shop.orders_2' doesn't exist"},
		{1049, "Unknown database 'd1'", "Unknown database 'd1'"},
		{1045, "Access denied for user 'bob'@'10.0.0.1' (using password: YES)", "Access denied for user 'bob'@'10.0.0.1' (using password: YES)"},
		{1044, "Access denied for user 'bob'@'%' to database 'd'", "Access denied for user 'bob'@'%' to database 'd'"},
		{1054, "Unknown column 't.known' in 'field list'", "Unknown column 't.known' in 'field list'"},
		{1054, "Unknown column 'secret' in 'where clause'", "Unknown column '?' in 'where clause'"},
		{1064, "You have an error in your SQL syntax; check the manual that corresponds to your MariaDB server version for the right syntax to use near ''yy' from 99 nope 4711 'abc' at line 1", "You have an error in your SQL syntax; check the manual that corresponds to your MariaDB server version for the right syntax to use near '?' at line 1"},
		{1064, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near 'a for the right syntax to use near 'secret' at line 1' at line 2", "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '?' at line 2"},
		{1064, "You have an error near 'secret", "You have an error near ?"},
		{1292, "Truncated incorrect DOUBLE value: 'abc'", "Truncated incorrect DOUBLE value: '?'"},
		{1292, "Incorrect datetime value: 'x' for column 'd' at row 1", "Incorrect datetime value: '?' for column 'd' at row 1"},
		{1366, "Incorrect integer value: 'x' for column `d`.`t`.`c2` at row 17", "Incorrect integer value: '?' for column `d`.`t`.`c2` at row 17"},
		{1366, "Incorrect integer value: 'a' for column 'b' at row 1' for column 'c' at row 2", "Incorrect integer value: '?' for column 'c' at row 2"},
		{1264, "Out of range value for column 'c' at row 3", "Out of range value for column 'c' at row 3"},
		{1406, "Data too long for column 'c1' at row 1", "Data too long for column 'c1' at row 1"},
		{1452, "Cannot add or update a child row: a foreign key constraint fails (`d`.`t2`, CONSTRAINT `fk_1` FOREIGN KEY (`a`) REFERENCES `p` (`id`))", "Cannot add or update a child row: a foreign key constraint fails (`d`.`t2`, CONSTRAINT `fk_1` FOREIGN KEY (`a`) REFERENCES `p` (`id`))"},
		{1142, "SELECT command denied to user 'u'@'h' for table 't'", "SELECT command denied to user 'u'@'h' for table 't'"},
		{1305, "FUNCTION d.f1 does not exist", "FUNCTION d.f1 does not exist"},
		{1146, "Table 'shop.sdkjfhsdkfjh' doesn't exist", "Table '?' doesn't exist"},
		{1049, "Unknown database 'sdkjfhsdkfjh'", "Unknown database '?'"},
		{1193, "Unknown system variable 'sdkjfhsdkfjh'", "Unknown system variable '?'"},
		{1477, "The foreign server name does not exist. Data source error:  sdkjfhsdkfjh", "?"},
		{1105, "sdkjfhsdkfjh", "?"},
		{1064, "Odd 'a' and 'b' at 17", "Odd ? at ?"},
		{1064, "Can't do 'a' 17", "Can?"},
		{1644, "card 4111 of Mr X", "?"},
	}
	for _, c := range tests {
		if got := string(appendErrorText(nil, c.code, [5]byte{}, []byte(c.text), []byte("select known, d.F1() from shop.orders_2 use d1"))); got != c.want {
			t.Errorf("%d %q\n got %q\nwant %q", c.code, c.text, got, c.want)
		}
	}
	signal := []byte("SIGNAL SQLSTATE '42S02' SET MYSQL_ERRNO=1146, MESSAGE_TEXT=?")
	if got := string(appendErrorText(nil, 1146, [5]byte([]byte("42S02")), []byte("Table 'sql' doesn't exist"), signal)); got != "?" {
		t.Errorf("SIGNAL with a code of the server's: %q", got)
	}
	if got := string(appendErrorText(nil, 7777, [5]byte([]byte("45000")), []byte("raised secret"), nil)); got != "?" {
		t.Errorf("SIGNAL with a code of its own: %q", got)
	}
}

func FuzzErrorText(f *testing.F) {
	f.Add(uint16(1062), "Duplicate entry 'x' for key 'y'")
	f.Add(uint16(1366), "Incorrect integer value: '' for column")
	f.Fuzz(func(t *testing.T, code uint16, text string) {
		for i := range errorMessages {
			appendErrorText(nil, errorMessages[i].code, [5]byte{}, []byte(text), nil)
		}
		if out := appendErrorText(nil, code, [5]byte{}, []byte(text), nil); len(out) > len(text)+1 {
			t.Fatalf("%d bytes became %d", len(text), len(out))
		}
	})
}

// With masking off an error text is masked all the same, if its statement handles
// credentials or it speaks of them itself.
func TestErrorTextsOfSecrets(t *testing.T) {
	out := &capture{}
	s := New(Config{Agent: "a", Boot: "b", Wait: true}, out)
	for sql, near := range map[string]string{"alter user u identified by 'x' hunter2": "hunter2' at line 1", "select 1": "identified by hunter2' at line 1", "select 2": "shown' at line 1"} {
		e := leakEvent(sql, known)
		e.ErrorCode = 1064
		e.ErrorText = []byte("You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '" + near)
		s.Lane(0).Put(e)
	}
	s.Lane(0).Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.b.String(), `near '?' at line 1`); n != 2 || !strings.Contains(out.b.String(), "near 'shown'") {
		t.Errorf("%d are masked: %s", n, out.b.String())
	}
}
