// Package captures holds public captures against sqlwitness. It has tests only:
// they read the captures in the directory that the environment variable
// SQLWITNESS_CAPTURES names, replay each through probe, worker and stream, and
// compare the events with a golden file, with tshark, with what the tools that
// the captures come from make of them, and with the events of the same capture
// cut at every packet.
//
// The captures have licences of their own and are no part of the project. The
// directory holds, beside them:
//
//	PORTS.tsv             file, server ports
//	COUNTS.tsv            file, ports, commands by an independent counter, …
//	INDEX.md              tables of the captures; a count with a * was fixed by hand
//	NAME.expected.log, .txt, .json   what the tool of the capture's source says of it
package captures
