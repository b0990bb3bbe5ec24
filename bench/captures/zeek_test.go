package captures_test

import (
	"strconv"
	"strings"
	"testing"
)

// zeekCommands are the commands of Zeek's mysql.log. It leaves Statistics and
// Quit without an outcome.
var zeekCommands = map[string]string{"login": "login", "query": "Query", "init_db": "Init DB", "field_list": "Field List",
	"change_user": "Change user", "ping": "Ping", "statistics": "Statistics", "quit": "Quit"}

// Zeek's mysql.log and ssl.log say the same as our events.
func TestZeek(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		text := c.expected(t)
		claims, ours := zeekLog(t, text), eventsOf(auditFile(t, c))
		if strings.Contains(text, "#path\tmysql") {
			against(t, c, claims, withNewUser(ours))
		}
		zeekResultRows(t, c, text, ours)
		for _, want := range zeekTLS(text) {
			against(t, c, []claim{want}, ours)
		}
	}, "zeek")
	checkExcuses(t, "zeek")
}

// withNewUser gives each Change user the user that it makes: Zeek logs it there.
func withNewUser(list []event) []event {
	for i := range list {
		if list[i].command == "Change user" && i+1 < len(list) {
			list[i].user = list[i+1].user
		}
	}
	return list
}

// zeekRows are the records of one log: name of the column, value.
func zeekRows(text, path string) []map[string]string {
	var rows []map[string]string
	var columns []string
	inside := false
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, "\t")
		switch {
		case cells[0] == "#path":
			inside = cells[1] == path
		case cells[0] == "#fields":
			columns = cells[1:]
		case strings.HasPrefix(line, "#") || line == "":
			inside = inside && !strings.HasPrefix(line, "#close")
		case inside && len(cells) == len(columns):
			row := map[string]string{}
			for i, name := range columns {
				row[name] = cells[i]
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// zeekLog reads mysql.log: cmd, arg, success, rows (affected ones: Zeek does not
// count those of a result set), response (the error text).
func zeekLog(t *testing.T, text string) []claim {
	t.Helper()
	var claims []claim
	for _, row := range zeekRows(text, "mysql") {
		cl := claim{what: zeekCommands[row["cmd"]], port: zeekPort(t, row), fields: map[string]string{}}
		if cl.what == "" {
			t.Fatalf("Zeek command %q", row["cmd"])
		}
		switch arg := row["arg"]; {
		case cl.what == "login" || cl.what == "Change user":
			cl.fields["user"] = arg
		case arg != "(empty)":
			cl.sql = arg
		}
		switch row["success"] {
		case "T":
			cl.fields["status"] = "ok"
		case "F":
			cl.fields["status"] = "error"
			cl.fields["error"] = row["response"]
		}
		if rows := row["rows"]; rows != "-" && cl.what != "login" {
			cl.fields["affected"] = rows
		}
		claims = append(claims, cl)
	}
	return claims
}

// zeekResultRows compares the number of rows of the whole capture, where Zeek's
// test prints each.
func zeekResultRows(t *testing.T, c *capture, text string, ours []event) {
	t.Helper()
	want, got := strings.Count(text, "\nmysql result row, "), int64(0)
	for i := range ours {
		if ours[i].kind == "command" {
			got += max(ours[i].rows, 0)
		}
	}
	if want > 0 && int64(want) != got {
		differ(t, "zeek", c, "all", "rows", strconv.FormatInt(got, 10), strconv.Itoa(want))
	}
}

// zeekTLS reads ssl.log: version and cipher.
func zeekTLS(text string) []claim {
	versions := map[string]string{"TLSv11": "TLS 1.1", "TLSv12": "TLS 1.2", "TLSv13": "TLS 1.3"}
	var claims []claim
	for _, row := range zeekRows(text, "ssl") {
		claims = append(claims, claim{what: "login", fields: map[string]string{"tls": versions[row["version"]] + " " + row["cipher"]}})
	}
	return claims
}

func zeekPort(t *testing.T, row map[string]string) uint16 {
	t.Helper()
	port, err := strconv.ParseUint(row["id.orig_p"], 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(port)
}
