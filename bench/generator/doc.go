// Package generator makes load without a database: a client and a server that
// speak the MySQL protocol over real TCP, at any rate, with any number of
// connections, and at a cost that leaves room for what is measured beside them.
//
// Each end is one thread around epoll(7) in a process of its own, so that the
// kernel tells their processor time apart: cmd/generate is that program, Start and
// Run drive it.
//
// Every statement carries its number in its text or parameter, and the server
// returns the number in the warnings of its result, which masking leaves alone: the
// events of an agent can be counted exactly (package losscheck), although all
// statements are of one form.
package generator
