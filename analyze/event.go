package analyze

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"time"
)

// unknown is the value of a text that an event does not have. It is no UTF-8, so
// no event can hold it.
const unknown = "\xff"

// Event is an event as rules see it. A number that the event does not have is
// NaN, a text is unknown; a list or a bool is empty or false.
type Event struct {
	V            float64           `json:"v" expr:"v"`
	Type         string            `json:"type" expr:"type"`
	Time         string            `json:"time" expr:"time"`
	Agent        string            `json:"agent" expr:"agent"`
	Boot         string            `json:"boot" expr:"boot"`
	Lane         int               `json:"lane" expr:"lane"`
	Seq          uint64            `json:"seq" expr:"seq"`
	Host         string            `json:"host" expr:"host"`
	Labels       map[string]string `json:"labels" expr:"labels"`
	Session      string            `json:"session" expr:"session"`
	SessionSeq   float64           `json:"session_seq" expr:"session_seq"`
	ServerIP     string            `json:"server_ip" expr:"server_ip"`
	ServerPort   float64           `json:"server_port" expr:"server_port"`
	ClientIP     string            `json:"client_ip" expr:"client_ip"`
	ClientPort   float64           `json:"client_port" expr:"client_port"`
	ProxyIP      string            `json:"proxy_ip" expr:"proxy_ip"`
	ProxyPort    float64           `json:"proxy_port" expr:"proxy_port"`
	ConnectionID float64           `json:"connection_id" expr:"connection_id"`
	User         string            `json:"user" expr:"user"`
	UserSource   string            `json:"user_source" expr:"user_source"`
	Program      string            `json:"program" expr:"program"`
	DB           string            `json:"db" expr:"db"`
	Command      string            `json:"command" expr:"command"`
	SQLCommand   string            `json:"sql_command" expr:"sql_command"`
	SQLCommands  []string          `json:"sql_commands" expr:"sql_commands"`
	SQL          string            `json:"sql" expr:"sql"`
	SQLBytes     float64           `json:"sql_bytes" expr:"sql_bytes"`
	SQLTruncated bool              `json:"sql_truncated" expr:"sql_truncated"`
	Digest       string            `json:"digest" expr:"digest"`
	Statements   float64           `json:"statements" expr:"statements"`
	Results      float64           `json:"results" expr:"results"`
	StmtID       float64           `json:"stmt_id" expr:"stmt_id"`

	Tables        []string `json:"tables" expr:"tables"`
	TablesWritten []string `json:"tables_written" expr:"tables_written"`
	Accounts      []string `json:"accounts" expr:"accounts"`
	Traits        []string `json:"traits" expr:"traits"`

	Status        string   `json:"status" expr:"status"`
	ErrorCode     float64  `json:"error_code" expr:"error_code"`
	SQLState      string   `json:"sql_state" expr:"sql_state"`
	Error         string   `json:"error" expr:"error"`
	ErrorClass    string   `json:"error_class" expr:"error_class"`
	Rows          float64  `json:"rows" expr:"rows"`
	AffectedRows  float64  `json:"affected_rows" expr:"affected_rows"`
	Warnings      float64  `json:"warnings" expr:"warnings"`
	RequestBytes  float64  `json:"request_bytes" expr:"request_bytes"`
	ResponseBytes float64  `json:"response_bytes" expr:"response_bytes"`
	FirstByteUs   float64  `json:"first_byte_us" expr:"first_byte_us"`
	DurationUs    float64  `json:"duration_us" expr:"duration_us"`
	ServerStatus  []string `json:"server_status" expr:"server_status"`
	Flags         []string `json:"flags" expr:"flags"`
	Rules         []string `json:"rules" expr:"rules"`
	Alerts        []string `json:"alerts" expr:"alerts"`
	Severity      string   `json:"severity" expr:"severity"`
	Sampled       float64  `json:"sample_probability" expr:"sample_probability"`

	Visibility    string            `json:"visibility" expr:"visibility"`
	TLSVersion    string            `json:"tls_version" expr:"tls_version"`
	TLSCipher     string            `json:"tls_cipher" expr:"tls_cipher"`
	AuthPlugin    string            `json:"auth_plugin" expr:"auth_plugin"`
	Compression   string            `json:"compression" expr:"compression"`
	ServerVersion string            `json:"server_version" expr:"server_version"`
	ClientAttrs   map[string]string `json:"client_attrs" expr:"client_attrs"`
	Commands      float64           `json:"commands" expr:"commands"`
	Errors        float64           `json:"errors" expr:"errors"`
	EndReason     string            `json:"end_reason" expr:"end_reason"`

	// Of an agent_report: ranges of this lane's seq, both ends included, that the
	// agent knows will never come.
	Holes     json.RawMessage `json:"holes" expr:"-"`
	SinkHoles json.RawMessage `json:"sink_holes" expr:"-"` // the same by sink, but for the first
	// And of lanes of earlier runs, what their spools have lost.
	EarlierHoles json.RawMessage `json:"earlier_holes" expr:"-"`

	// Of an agent_start: the run before, whether it ended with an agent_stop, the seq
	// that each lane had reached, and since when nobody watched.
	PreviousBoot  string   `json:"previous_boot" expr:"-"`
	PreviousClean *bool    `json:"previous_clean" expr:"-"`
	PreviousSeqs  []uint64 `json:"previous_seqs" expr:"-"`
	BlindFrom     string   `json:"blind_from" expr:"-"`
	Lanes         int      `json:"lanes" expr:"-"` // of this run

	at        time.Time
	raw       []byte
	partition int
	learned   bool // judged by another member before
}

// blank is an event of which nothing is known.
var blank = func() Event {
	n, s := math.NaN(), unknown
	return Event{V: n, Type: s, Time: s, Agent: s, Boot: s, Lane: -1, Host: s, Session: s, SessionSeq: n, ServerIP: s, ServerPort: n,
		ClientIP: s, ClientPort: n, ProxyIP: s, ProxyPort: n, ConnectionID: n, User: s, UserSource: s, Program: s, DB: s, Command: s,
		SQLCommand: s, SQL: s, SQLBytes: n, Digest: s, Statements: n, Results: n, StmtID: n, Status: s, ErrorCode: n, SQLState: s, Error: s,
		ErrorClass: s, Rows: n, AffectedRows: n, Warnings: n, RequestBytes: n, ResponseBytes: n, FirstByteUs: n, DurationUs: n, Severity: s, Sampled: n,
		Visibility: s, TLSVersion: s, TLSCipher: s, AuthPlugin: s, Compression: s, ServerVersion: s, Commands: n, Errors: n, EndReason: s}
}()

// decode reads an event of the JSON form into e, which keeps raw.
func (e *Event) decode(raw []byte) error {
	*e = blank
	e.raw = raw
	if err := json.Unmarshal(raw, e); err != nil {
		return fmt.Errorf("decode event: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, e.Time)
	if err != nil {
		return fmt.Errorf("decode event: time: %w", err)
	}
	e.at = at
	return nil
}

// known is the function of that name in rules.
func known(v any) bool {
	switch v := v.(type) {
	case float64:
		return !math.IsNaN(v)
	case string:
		return v != unknown
	}
	return v != nil
}

// cidr tells whether an address is in a network, such as cidr(client_ip,
// "10.0.0.0/8"). An address that is not known is in none.
func cidr(ip, network string) (bool, error) {
	p, err := netip.ParsePrefix(network)
	if err != nil {
		return false, err
	}
	a, err := netip.ParseAddr(ip)
	return err == nil && p.Contains(a.Unmap()), nil
}

// hour is the hour of a time in UTC, NaN if the time is not known.
func hour(at string) float64 {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return math.NaN()
	}
	return float64(t.UTC().Hour())
}
