package captures_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// deepflowMessage is one line of DeepFlow's expected output: a packet that it
// took for a message.
type deepflowMessage struct {
	Kind     string `json:"msg_type"` // Session: a request without a response
	Request  byte   `json:"request_type"`
	Resource string `json:"request_resource"`
	Status   string `json:"response_status"`
	Error    string `json:"response_execption"`
	Affected *int64 `json:"sql_affected_rows"`
	StmtID   int64  `json:"statement_id"`
	In       int64  `json:"captured_request_byte"`
	Out      int64  `json:"captured_response_byte"`
}

// deepflowCommands are the commands by their byte.
var deepflowCommands = map[byte]string{0: "login", 1: "Quit", 2: "Init DB", 3: "Query", 4: "Field List",
	22: "Prepare", 23: "Execute", 25: "Close stmt"}

// deepflowWindow is how much of a packet DeepFlow's test looks at.
const deepflowWindow = 1024

// DeepFlow's messages say the same as our events.
func TestDeepflow(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		ours := eventsOf(auditFile(t, c))
		for i := range ours { // deepflow prints bytes that are no UTF-8 as U+FFFD
			ours[i].sql = strings.ToValidUTF8(ours[i].sql, "\uFFFD")
		}
		against(t, c, deepflowClaims(t, c.expected(t), ours), ours)
	}, "deepflow")
	checkExcuses(t, "deepflow")
}

// deepflowClaims pairs each request with the response that follows it.
func deepflowClaims(t *testing.T, text string, ours []event) []claim {
	t.Helper()
	var claims []claim
	answered := true
	for _, line := range strings.Split(text, "\n") {
		raw, _, _ := strings.Cut(line, " is_mysql:")
		if raw == "" {
			continue
		}
		var m deepflowMessage
		if err := json.Unmarshal([]byte(raw), &m); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Kind == "Request" || m.Kind == "Session":
			claims = append(claims, m.request(t, ours))
			answered = m.Kind == "Session"
		case m.Kind == "Response" && !answered:
			m.answer(&claims[len(claims)-1])
			answered = true
		}
	}
	return claims
}

var deepflowLogin = regexp.MustCompile(`^Login username: (\S*)(?: db: (\S*))?$`)

func (m *deepflowMessage) request(t *testing.T, ours []event) claim {
	t.Helper()
	cl := claim{what: deepflowCommands[m.Request], fields: map[string]string{}}
	switch cl.what {
	case "":
		t.Fatalf("DeepFlow request type %d", m.Request)
	case "login":
		login := deepflowLogin.FindStringSubmatch(m.Resource)
		if login == nil {
			t.Fatalf("DeepFlow login %q", m.Resource)
		}
		cl.fields["user"], cl.fields["db"] = login[1], login[2]
		return cl
	case "Field List": // without its table
		cl.sql = firstSQL(ours, cl.what)
	case "Execute": // its text is the statement's
		cl.fields["params"] = deepflowParams(m.Resource)
		cl.fields["stmt"] = strconv.FormatInt(m.StmtID, 10)
		for i := range ours {
			if ours[i].command == "Prepare" && ours[i].stmtID == m.StmtID {
				cl.sql = ours[i].sql
			}
		}
	default:
		cl.sql = m.Resource
	}
	cl.fields["in"] = strconv.FormatInt(m.In, 10)
	return cl
}

func firstSQL(ours []event, command string) string {
	for i := range ours {
		if ours[i].command == command {
			return ours[i].sql
		}
	}
	return ""
}

var deepflowNumber = regexp.MustCompile(`LongLong\((-?\d+)\)`)

// deepflowParams takes the types off the values.
func deepflowParams(s string) string { return deepflowNumber.ReplaceAllString(s, "$1") }

// answer adds what a response says. A statement id means something in the
// response to a Prepare only; what the window cuts is not counted.
func (m *deepflowMessage) answer(cl *claim) {
	switch m.Status {
	case "ok":
		cl.fields["status"] = "ok"
	case "server_error", "client_error":
		cl.fields["status"] = "error"
		cl.fields["error"] = m.Error
	}
	if cl.what == "login" {
		return
	}
	if m.Affected != nil {
		cl.fields["affected"] = strconv.FormatInt(*m.Affected, 10)
	}
	if cl.what == "Prepare" {
		cl.fields["stmt"] = strconv.FormatInt(m.StmtID, 10)
	}
	if m.Out < deepflowWindow {
		cl.fields["out"] = strconv.FormatInt(m.Out, 10)
	}
}
