// Package identity holds the agent to the users that it names. Clients that
// write their true user into each statement's text are audited on a live
// server by an agent that came later than they, is restarted among them, or
// whose server fails it: a user that is told is the right one, whatever happens.
package identity
