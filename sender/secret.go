package sender

import "bytes"

// What is masked even with masking off. The rule is wide on purpose: in a
// statement that handles credentials every literal but numbers and account names
// is masked. A statement handles credentials if its verb says so (account and
// replication statements, servers of the federated engines) or if it holds one
// of these words anywhere. Comments and strings that speak of passwords are
// masked wherever they stand, because statements are built from strings.

// secretWords mark a statement as one that handles credentials, beside
// "identified", "password", and every word that ends in "_password".
var secretWords = [...]string{
	// Functions whose arguments are passwords or keys.
	"old_password", "encrypt", "aes_encrypt", "aes_decrypt", "des_encrypt", "des_decrypt", "encode", "decode",
	"statement_digest_text", "validate_password_strength", "kdf",
	// Columns and tables of the grant system.
	"authentication_string", "global_priv", "user_attributes", "slave_master_info", "password_history",
	// Variables that hold credentials.
	"wsrep_sst_auth",
}

// secretWord marks the statement if the word k, spelled w, says that it handles
// credentials. Only called with masking off.
func (x *lexer) secretWord(k keyword, w []byte) {
	st := &x.st
	switch k {
	case kwIdentified, kwPassword, kwSecret:
		st.secret = true
	case kwMysql:
		st.mysqlSchema = true
	case kwUser, kwServer:
		st.secret = st.secret || st.mysqlSchema // mysql.user
	case kwConnection:
		st.secret = st.secret || st.isDDL() // CREATE TABLE … CONNECTION='mysql://user:pw@host'
	case kwNone:
		st.secret = st.secret || namesPassword(w)
		if st.mysqlSchema && equalFold(w, "servers") {
			st.secret = true
		}
	}
}

// namesPassword tells whether w is a name that ends in _password.
func namesPassword(w []byte) bool {
	const suffix = "_password"
	n := len(w) - len(suffix)
	return n > 0 && equalFold(w[n:], suffix)
}

// verbHandlesSecrets tells whether a statement of this kind handles credentials.
func (c sqlCommand) verbHandlesSecrets() bool {
	switch c.verb {
	case kwGrant, kwRevoke, kwChange, kwClone:
		return true
	case kwStart:
		return c.object == kwSlave || c.object == kwGroupReplication
	}
	switch c.object {
	case kwUser, kwRole, kwPassword, kwServer:
		return true
	}
	return false
}

// speaksOfSecrets tells whether the inside of a string or comment may hold
// credentials.
func speaksOfSecrets(b []byte) bool {
	return containsFold(b, "identified") || containsFold(b, "password") || containsFold(b, "authentication_string")
}

// containsFold tells whether b holds word, which is in lower case, in any case.
func containsFold(b []byte, word string) bool {
	first, upper := word[0], word[0]-('a'-'A')
	for len(b) >= len(word) {
		i := bytes.IndexByte(b, first)
		if k := bytes.IndexByte(b, upper); i < 0 || k >= 0 && k < i {
			i = k
		}
		if i < 0 || len(b)-i < len(word) {
			return false
		}
		if equalFold(b[i:i+len(word)], word) {
			return true
		}
		b = b[i+1:]
	}
	return false
}
