// The audit events of sqlwitness for Apache Thrift, and the service that takes
// them. The fields are those of the JSON form: same names, same meanings; a field
// that is not set is unknown, or for lists and booleans empty or false. Fields are
// only ever added.

namespace go audit
namespace py sqlwitness.audit
namespace java sqlwitness.audit

// A bound value; without value it is NULL.
struct Param {
  1: optional string value
}

struct Event {
  1: optional i32 v
  2: optional string type
  3: optional string time
  4: optional string agent
  5: optional string boot
  6: optional i32 lane
  7: optional i64 seq
  8: optional string host
  9: optional map<string, string> labels
  10: optional string session
  11: optional i64 session_seq
  12: optional string server_ip
  13: optional i32 server_port
  14: optional string client_ip
  15: optional i32 client_port
  16: optional string proxy_ip
  17: optional i32 proxy_port
  18: optional i64 connection_id
  19: optional string user
  20: optional string user_source
  21: optional string program
  22: optional string db
  23: optional string command
  24: optional string sql_command
  25: optional list<string> sql_commands
  26: optional string sql
  27: optional i64 sql_bytes
  28: optional bool sql_truncated
  29: optional string digest
  30: optional i64 statements
  31: optional i64 results
  32: optional i64 stmt_id
  33: optional list<string> tables
  34: optional list<string> tables_written
  35: optional list<string> accounts
  36: optional list<string> traits
  37: optional list<Param> params
  38: optional string status
  39: optional i32 error_code
  40: optional string sql_state
  41: optional string error
  42: optional string error_class
  43: optional i64 rows
  44: optional i64 affected_rows
  45: optional i64 warnings
  46: optional i64 request_bytes
  47: optional i64 response_bytes
  48: optional i64 first_byte_us
  49: optional i64 duration_us
  50: optional list<string> server_status
  51: optional list<string> flags
  52: optional list<string> rules
  53: optional list<string> alerts
  54: optional double sample_probability
  55: optional string visibility
  56: optional string tls_version
  57: optional string tls_cipher
  58: optional string auth_plugin
  59: optional string compression
  60: optional string server_version
  61: optional map<string, string> client_attrs
  62: optional i64 commands
  63: optional i64 errors
  64: optional string end_reason
  65: optional string severity

  // A JSON object of all fields that have no number here: those of agent_* events,
  // and those of a sender that is newer than this file.
  100: optional string extra
}

// Events of one agent, in the order of its lanes' seq.
struct Batch {
  1: optional string agent
  2: optional list<Event> events
}

// What became of a batch: events it held; of these, how many the collector's sink
// took only without sql and params, or not at all, because they were too large; and
// the places in the batch of those not taken, the first is 0.
struct Ack {
  1: optional i64 events
  2: optional i64 stubs
  3: optional i64 refused
  4: optional list<i64> refused_at
}

// The batch was not taken. Send it again later, unchanged.
exception Unavailable {
  1: optional string reason
}

service Collector {
  // Returns when the collector's sinks have all taken the batch. An event without seq
  // is refused with the connection, and so is what is no Batch.
  Ack put(1: Batch batch) throws (1: Unavailable unavailable)
}
