package truth

import "bytes"

// Logging says when the general log lists a command.
type Logging uint8

// The answers.
const (
	Always    Logging = iota + 1
	OnSuccess         // a failed one leaves no line
	Never
)

// A Rule says what the server's logs tell of a command. All of it was measured
// on MariaDB 10.11.
type Rule struct {
	Word    string              // of the event and of the log
	General Logging             // in the general log
	Slow    bool                // each executed statement has a record in slow log and server_audit
	Text    func([]byte) []byte // what the log makes of the text; nil = the command has none
}

// Rules is the table of sources. Not in it: COM_CHANGE_USER, which the log
// prints as a second "Connect", and prepared statements, whose "Execute" lines
// show substituted values and which SQL-level PREPARE and EXECUTE also write.
//
//	command           general log       slow log, audit   text in the general log
//	Query             always            per statement     blanks in front and blanks and ; behind stripped
//	Init DB           if it succeeded   no                schema
//	Field List        always            no                table and wildcard
//	Quit              always            no                none
//	Statistics        always            no                none
//	Processlist, Kill always            no                none
//	Ping              never             no
//	Set option        never             no
//	Reset connection  never             no
var Rules = []Rule{
	{Word: "Query", General: Always, Slow: true, Text: stripStatement},
	{Word: "Init DB", General: OnSuccess, Text: same},
	{Word: "Field List", General: Always, Text: same},
	{Word: "Quit", General: Always},
	{Word: "Statistics", General: Always},
	{Word: "Processlist", General: Always},
	{Word: "Kill", General: Always},
	{Word: "Ping", General: Never},
	{Word: "Set option", General: Never},
	{Word: "Reset connection", General: Never},
}

func rule(word string) (Rule, bool) {
	for _, r := range Rules {
		if r.Word == word {
			return r, true
		}
	}
	return Rule{}, false
}

// Logged tells whether the general log lists a command that ended with an error
// code, where 0 is success.
func Logged(word string, errorCode int) bool {
	r, ok := rule(word)
	return ok && (r.General == Always || r.General == OnSuccess && errorCode == 0)
}

// AsLogged is the text of a command as the general log shows it.
func AsLogged(word string, text []byte) []byte {
	r, ok := rule(word)
	if !ok {
		return text
	}
	if r.Text == nil {
		return nil
	}
	return r.Text(text)
}

// stripStatement does what the server does to a statement before anything else
// sees it (sql/sql_parse.cc of MariaDB 10.11, alloc_query).
func stripStatement(text []byte) []byte {
	const blanks = " \t\n\v\f\r"
	return bytes.TrimRight(bytes.TrimLeft(text, blanks), blanks+";")
}

func same(text []byte) []byte { return text }
