// Package sender turns events into lines and delivers them.
//
// In: stream.Event, borrowed for the call of Lane.Put. Out: whole lines, JSON or
// text, handed to a Sink. Raw literals never go further than this package's
// scratch buffers: what is queued is masked.
//
// The stages and their files, in the order of the data:
//
//	lane.go        Put: one event of one shard; mask, encode, append to the lane's chunk
//	masker.go      literals become `?` under every reading the server may have had
//	  reading.go     the readings: escapes, quotes, character set
//	  lexer.go       one pass over the text under one reading
//	  literal.go     strings and quoted names; number.go, comment.go
//	  statement.go   statements, their verbs, what follows a verb; command.go names them
//	  set.go         assignments; prepared.go strings that are statements
//	  account.go     account names and credentials in account statements
//	  body.go        the nesting of stored program bodies
//	  keyword.go     the words that the above know
//	  secret.go      what is masked even with masking off
//	errtext.go     error texts, by the server's message templates
//	errclass.go    error codes become classes
//	json.go        the event as one line of JSON; jsonsession.go what is the same for a
//	               session, attrs.go its attributes, jsonvalue.go strings, numbers, times
//	text.go        the event as one line for people
//	queue.go       chunks on their way from the lanes to the sink, bounded in bytes
//	sink.go, file.go   a writer; a file that rotates
//
// Each Lane belongs to one goroutine, a shard's. One goroutine of the Sender
// writes to the sink. They meet in the queue, once per chunk.
package sender
