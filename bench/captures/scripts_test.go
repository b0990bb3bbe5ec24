package captures_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The captures of mysqlaudittest come with the Python that made them: what it
// sends, and the name of the command that the case is about.
var (
	scriptText    = regexp.MustCompile(`(?s)(?:cmd\.execute|cmd_query|cmd_stmt_prepare|statement =)\s*\(?\s*b?(?:"((?:[^"\\]|\\.)*)"|'([^']*)')(?:\.format\("1"\*\(2\*\*10-40\)\))?`)
	scriptComment = regexp.MustCompile(`(?m)^\s*#[^\n]*$`)
	scriptCall    = regexp.MustCompile(`cnx\.cmd_(\w+)\(`)
	scriptCalls   = map[string]string{"stmt_prepare": "Prepare", "stmt_execute": "Execute", "stmt_close": "Close stmt",
		"reset_connection": "Reset connection", "statistics": "Statistics", "debug": "Debug", "query": "Query", "query_iter": "Query"}
)

// Every statement of a script is an event, in its order, with its whole text;
// what else there is comes from the connector.
func TestScripts(t *testing.T) {
	statements := 0
	eachCapture(t, func(t *testing.T, c *capture) {
		text := scriptComment.ReplaceAllString(c.expected(t), "")
		if text == "" {
			return
		}
		ours := eventsOf(auditFile(t, c))
		at := 0
		for n, sql := range scriptStatements(text) {
			statements++
			for at < len(ours) && ours[at].sql != sql {
				if !fromConnector(&ours[at]) {
					differ(t, c.source(), c, strconv.Itoa(n+1), "event", ours[at].sql, sql)
				}
				at++
			}
			if at == len(ours) {
				differ(t, c.source(), c, strconv.Itoa(n+1), "event", "none", sql)
				break
			}
			at++
		}
		for _, m := range scriptCall.FindAllStringSubmatch(text, -1) {
			if what := scriptCalls[m[1]]; what == "" {
				t.Errorf("%s calls %q", c.name, m[1])
			} else if what != "" && len(eventsOf(ours, what)) == 0 {
				differ(t, c.source(), c, what, "event", "none", "sent")
			}
		}
	}, "mysqlaudittest")
	checkExcuses(t, "mysqlaudittest")
	if statements < 50 {
		t.Errorf("only %d statements were found in the scripts", statements)
	}
}

// scriptStatements are the texts that a script sends.
func scriptStatements(text string) []string {
	var list []string
	for _, m := range scriptText.FindAllStringSubmatch(text, -1) {
		sql := strings.ReplaceAll(m[1]+m[2], "\\\n", "")
		if strings.HasSuffix(m[0], ")") && strings.Contains(m[0], ".format(") {
			sql = strings.Replace(sql, "{}", strings.Repeat("1", 1<<10-40), 1)
		}
		list = append(list, sql)
	}
	return list
}

// fromConnector reports what mysql-connector-python sends by itself.
func fromConnector(e *event) bool {
	return e.what() != "Query" || strings.HasPrefix(e.sql, "SET NAMES ") || strings.HasPrefix(e.sql, "SET @@session.autocommit")
}
