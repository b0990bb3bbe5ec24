// Package sender turns events into lines and delivers them.
//
// In: stream.Event, borrowed for the call of Lane.Put. Out: whole lines, JSON or
// text, handed to a Sink. Raw literals never go further than this package's
// scratch buffers: what is queued is masked.
//
// The stages and their files, in the order of the data:
//
//	lane.go        Put: one event of one shard; select, mask, encode, append to the lane's chunk
//	select.go      which events are kept, in three stages with cached verdicts
//	  selectsession.go  the first stage; sample.go sampling, rate limits; classes.go
//	  rules.go       rules; rulesfield.go their fields, rulescompile.go and
//	                 rulesfunc.go their conditions, rulestats.go what they did and cost
//	template.go    statements that differ from an earlier one in plain values: known
//	               without lexing
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
//	shape.go       the form of a statement, which holds no value, and its hash
//	selection.go   what is known of a shape, or a first look at it
//	  shapecache.go  the shapes seen last; shapework.go studies new ones in the background
//	  digest.go      what there is to find out: tokens.go, words.go read the form,
//	                 tables.go by the parser's tree, tablesguess.go and tableslist.go by
//	                 words; traits.go
//	errtext.go     error texts, by the server's message templates
//	errclass.go    error codes become classes
//	json.go        the event as one line of JSON; jsonsession.go what is the same for a
//	               session, attrs.go its attributes, jsonvalue.go strings, numbers, times
//	               jsonshape.go digest, tables, traits, rules
//	text.go        the event as one line for people
//	record.go      what a sink must know of a line without reading it: lane, seq, time, type
//	queue.go       chunks on their way from the lanes to a sink, bounded in bytes
//	holes.go       what was refused or given up, by seq; notice.go puts it into reports
//	local.go       from a queue to a sink on this machine
//	  sink.go        a writer
//	  file.go        a file that rotates; filekeep.go compresses and removes the old ones,
//	                 filedir.go the disk and the names
//	outlet.go      from a queue to another machine: batches, retries, the spool
//	  spool.go       a queue on disk; spoolsegment.go its files, spoolframe.go their
//	                 format, spoolfs.go the disk; spoolearlier.go what was lost of the
//	                 files of earlier runs, for reports
//	kafka.go       a topic; kafkarecords.go its records, kafkaauth.go TLS and SASL
//	thrift.go      a collector; thriftencode.go events by audit.thrift, from their JSON,
//	               members.go reads that; thriftdecode.go the way back
//	collector.go   the other end: Thrift in, any sink out
//	  collectorcall.go  one connection of it
//
// Each Lane belongs to one goroutine, a shard's. Each sink has a queue and a
// goroutine that writes; one on another machine has more, for its spool. They meet
// in the queue, once per chunk.
package sender
