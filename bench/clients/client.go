package clients

// A Client is one driver with one set of options.
type Client struct {
	Name   string
	Driver string // and its version, for people
	kit    string // name of the Kit that runs it
	args   []string
}

// Of the Sizes that a script is given, those of the longer values.
type Sizes struct{ Mid, Big int }

// The sizes of a test, and of a recording that shall be small.
var (
	FullSizes  = Sizes{Mid: 70000, Big: 1 << 20}
	SmallSizes = Sizes{Mid: 3000, Big: 3000}
)

// Versions of the drivers. That of go-sql-driver is in go.mod, that of the
// mariadb client is Debian's.
const (
	connectorJ        = "9.4.0"
	mariadbConnectorJ = "3.5.6"
	connectorPython   = "9.4.0"
	pyMySQL           = "1.1.2"
	mysql2            = "3.24.6"
)

// All are the clients of the test, without TLS.
func All() []Client {
	return []Client{
		java("connectorj-prepared", "driver=mysql", "prepared=1", "url=useServerPrepStmts=true&allowMultiQueries=true"),
		java("connectorj-cursor-compressed", "driver=mysql", "prepared=1", "url=useServerPrepStmts=true&useCursorFetch=true&useCompression=true"),
		java("connectorj-text", "driver=mysql", "url=useServerPrepStmts=false&rewriteBatchedStatements=true&allowMultiQueries=true"),
		java("connectorj-text-compressed", "driver=mysql", "url=useServerPrepStmts=false&allowMultiQueries=true&useCompression=true"),
		mariadbJava("mariadbj-bulk", "driver=mariadb", "prepared=1", "url=useServerPrepStmts=true&useBulkStmts=true&allowMultiQueries=true"),
		mariadbJava("mariadbj-compressed", "driver=mariadb", "prepared=1", "url=useServerPrepStmts=true&useCompression=true"),
		python("connectorpython-pure", "driver=pure"),
		python("connectorpython-pure-compressed", "driver=pure", "compress=1"),
		python("connectorpython-c", "driver=c"),
		python("connectorpython-c-compressed", "driver=c", "compress=1"),
		pymysql("pymysql", "driver=pymysql"),
		node("mysql2"),
		node("mysql2-compressed", "compress=1"),
		golang("gosqldriver-prepared", "prepared=1"),
		golang("gosqldriver-interpolated", "dsn=interpolateParams=true"),
		golang("gosqldriver-compressed", "prepared=1", "dsn=compress=true"),
		cli("mariadb-cli"),
		cli("mariadb-cli-compressed", "--compress"),
	}
}

func java(name string, args ...string) Client {
	return Client{Name: name, Driver: "MySQL Connector/J " + connectorJ, kit: "java", args: args}
}

func mariadbJava(name string, args ...string) Client {
	return Client{Name: name, Driver: "MariaDB Connector/J " + mariadbConnectorJ, kit: "java", args: args}
}

func python(name string, args ...string) Client {
	return Client{Name: name, Driver: "mysql-connector-python " + connectorPython, kit: "python", args: args}
}

func pymysql(name string, args ...string) Client {
	return Client{Name: name, Driver: "PyMySQL " + pyMySQL, kit: "python", args: args}
}

func node(name string, args ...string) Client {
	return Client{Name: name, Driver: "mysql2 " + mysql2, kit: "node", args: args}
}

func golang(name string, args ...string) Client {
	return Client{Name: name, Driver: "go-sql-driver/mysql, version in go.mod", kit: "golang", args: args}
}

func cli(name string, args ...string) Client {
	return Client{Name: name, Driver: "mariadb client of Debian 12", kit: "cli", args: args}
}
