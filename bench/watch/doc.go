// Package watch holds the watcher against live servers: what it says of each
// connection, of the counters and of itself, when the server is in order and
// when it is not.
package watch
