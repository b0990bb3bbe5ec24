// Package foreign reads and writes the events of sqlwitness with programs of others: a
// collector and a client in Python, generated from sender/audit.thrift, and a validator
// of JSON Schema.
package foreign
