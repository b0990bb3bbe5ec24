// Package proxies holds the agent to the clients that it names behind a proxy. A
// proxy of our own lends its connections to a live server to many clients, each of
// which writes its own port into every statement, and tells the agent what
// ProxySQL's admin interface would: a client that is told is the right one.
package proxies
