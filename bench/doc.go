// Package bench holds what measures and judges the whole program from outside:
// the truth tests beside this file run the built sqlwitness against a private
// MariaDB and real clients, and compare its events with what the server's own
// logs and the clients say happened.
//
//	mariadb    a server of one's own           netns   where packets travel
//	load       clients that send statements    truth   what the server did; the comparison
//	generator  load without a database: any rate, connections, sizes
//	speed      loss, CPU, memory and latency beside that load   meter   what reads them
//	agent      sqlwitness as a process         losscheck   numbered statements, counted
//	cmd/demo   the five-minute tour            cmd/losscheck   loss and CPU on this machine
//	proxies    clients behind a proxy          watch   the watcher against servers
//	flavours   a server that shares no code with MySQL
//	peers      other tools on the same load    plots   their figures, drawn
//	stages     one stage of the pipeline at a time   cmd/compare   two revisions, by benchstat
//	cmd/generate   the ends of the generator   cmd/ringonly    the floor of every capture
package bench
