// Package hostile holds the agent against traffic that wants to harm it, and
// against connections that it meets in the middle of their life.
//
// In go made segments, straight into a worker.Shard, and real connections beside
// the program itself; out come three questions, asked of every attack: is memory
// bounded, does a byte cost what a byte costs, and is a real session beside the
// attack audited whole. At the end of each the ledgers must add up.
package hostile
