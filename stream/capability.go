package stream

// capability is the set of capability flags that an end of a connection
// announces.
// https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html
type capability uint32

const (
	clientMySQL              capability = 1 << 0 // clear in a server's greeting: MariaDB with extended capabilities
	clientConnectWithDB      capability = 1 << 3
	clientCompress           capability = 1 << 5
	clientProtocol41         capability = 1 << 9
	clientSSL                capability = 1 << 11
	clientSecureConnection   capability = 1 << 15
	clientMultiStatements    capability = 1 << 16
	clientPluginAuth         capability = 1 << 19
	clientConnectAttrs       capability = 1 << 20
	clientPluginAuthLenenc   capability = 1 << 21
	clientSessionTrack       capability = 1 << 23
	clientDeprecateEOF       capability = 1 << 24
	clientOptionalMetadata   capability = 1 << 25
	clientZstdCompression    capability = 1 << 26
	clientQueryAttributes    capability = 1 << 27
	clientProgress           capability = 1 << 29 // MariaDB before 10.2, see mariadbProgress
	serverStatusDBDropped               = 0x0100
	serverStatusNoBackslash             = 0x0200
	serverStatusMoreResults             = 0x0008
	serverStatusCursor                  = 0x0040
	serverStatusSessionState            = 0x4000
	serverStatusANSIQuotes              = 0x8000 // MariaDB only
)

// The MariaDB extended capabilities stand in the last four bytes of the filler,
// shifted by 32 in MariaDB's documentation.
// https://mariadb.com/kb/en/connection/#capabilities
const (
	mariadbProgress      capability = 1 << 0
	mariadbCacheMetadata capability = 1 << 4
)

// capabilities are what both ends of a connection agreed on. Where the login
// was not seen, deprecateEOF and queryAttributes are inferred from traffic.
type capabilities struct {
	server        capability
	client        capability
	serverMariaDB capability // MariaDB's extended flags
	clientMariaDB capability
	known         bool // the login was seen
	deprecateEOF  Tri
	attributes    Tri  // COM_QUERY and COM_STMT_EXECUTE carry query attributes
	tracksSchema  bool // the server has reported its schema, and so tells when that changes
}

// agree settles the flags that change how packets are read.
func (c *capabilities) agree() {
	c.known = true
	both := c.client & c.server
	c.deprecateEOF = tri(both&clientDeprecateEOF != 0)
	c.attributes = tri(both&clientQueryAttributes != 0)
}

// optionalMetadata: a result set's header has a byte that tells whether column
// definitions follow.
func (c *capabilities) optionalMetadata() bool {
	return c.client&c.server&clientOptionalMetadata != 0 || c.clientMariaDB&c.serverMariaDB&mariadbCacheMetadata != 0
}

func (c *capabilities) sessionTrack() bool { return c.client&c.server&clientSessionTrack != 0 }

// progress: the server may report the progress of a command before it answers it.
func (c *capabilities) progress() bool {
	return !c.known || c.client&clientProgress != 0 || c.clientMariaDB&mariadbProgress != 0
}

func tri(b bool) Tri {
	if b {
		return Yes
	}
	return No
}
