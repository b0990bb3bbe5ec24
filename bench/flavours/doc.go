// Package flavours holds the agent to a server that shares no code with MySQL or
// MariaDB: gomysqlserver, a module of its own beside this file, is built and run, and
// the events of its clients are compared with what they did.
package flavours
