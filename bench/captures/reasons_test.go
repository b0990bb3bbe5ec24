package captures_test

// Reasons that hold for more than one difference.
const (
	reused       = "the second connection on these ports was copied by hand, initial sequence number and all: in TCP these segments are repeats of the first (RFC 9293 section 3.4.1 forbids the reuse)"
	edited       = "the sequence numbers were edited by hand: bytes are missing between the pieces, which the source joins all the same"
	midZip       = "tshark cannot read a compressed connection whose login it has not seen"
	deflated     = "the source counts bytes before they are inflated, we behind"
	sourcePairs  = "the source puts the messages of eleven connections through one parser, so that a response goes to another connection's request"
	noReply      = "the capture ends before the response; the source reports no such command"
	notConfirmed = "the capture ends before the server accepts or refuses the login; the source names whom the client asked for, we name a user once the server has answered"
	longBatch    = "the segments are seconds apart by hand, and a hole is given up after two batches: with one segment each, before what fills it comes"
	noError      = "the source's words for a client that left during the login; no such packet was sent. We say status aborted"
)

// excuses are all differences that stay. Each was looked up in the packets.
var excuses = []excuse{
	{"counter", "percona__tcpdump017 / all / commands", "sequence numbers 1, 2, 3, 4 by hand: four copies of a query that overlap in all but one byte. The later three are repeats"},

	{"tshark", "percona__tcpdump014 / 10.54.212.171:49663 / 1", midZip},
	{"tshark", "deepflow__mysql-use / 172.27.14.104:61950 / 1", midZip},
	{"tshark", "deepflow__mysql-compressed-response / 10.233.102.189:50538 / 1", midZip},
	{"tshark", "percona__tcpdump031 / 172.20.4.20:35957 / 1", "tshark shows no statement that has a hole, we show the part before it"},
	{"tshark", "percona__tcpdump032 / 172.20.4.20:35957 / 1", "tshark shows no statement that has a hole, we show the part before it"},
	{"tshark", "percona__tcpdump038 / 127.0.0.1:36777 / 2", "the sequence numbers jump by 2.8 billion: tshark takes what follows for a repeat, we go on there"},
	{"tshark", "deepflow__binary-in-sql / 20.14.17.83:48426 / 2", "tshark's text ends at the first NUL, the statement has more"},

	{"tshark", "percona__tcpdump035 / 127.0.0.1:57890 / 2", "the second connection has the initial sequence number of the first, an hour later: tshark takes it for a repeat"},

	{"batches", "percona__tcpdump037 / size 3 / events", longBatch},
	{"batches", "pcapplusplus__pcapng-example / size 3 / events", "the SYN-ACK is stamped 46 years later than its neighbours: in a batch that ends there the connection looks silent for years"},

	{"zeek", "zeek__encrypted / 1 login / tls", "the cipher is not in Go's crypto/tls, which names them for us: we give its number"},
	{"zeek", "zeek__auth / 55834 login 0 / event", "ERR 1130 in place of a greeting: Zeek logs nothing, we a login that failed"},
	{"zeek", "zeek__auth / 55835 login 0 / event", "as above"},
	{"zeek", "zeek__auth / 55836 login 0 / event", "as above"},

	{"deepflow", "deepflow__mysql-statement / 10 Query / status", sourcePairs},
	{"deepflow", "deepflow__mysql-statement / 10 Query / affected", sourcePairs + ". 98 is a statement id"},
	{"deepflow", "deepflow__mysql-statement / 11 Prepare / stmt", sourcePairs},
	{"deepflow", "deepflow__mysql-use / 1 Query / in", deflated},
	{"deepflow", "deepflow__mysql-use / 1 Query / out", deflated},
	{"deepflow", "deepflow__mysql-compressed-response / 1 Query / in", deflated},
	{"deepflow", "deepflow__mysql-compressed-response / 1 Query / out", deflated},

	{"packetbeat", "packetbeat__mysql_connection / all / events", "Packetbeat finds one command, the fourth packet of which begins a segment it can read; the connection has five, all answered"},
	{"packetbeat", "packetbeat__mysql_connection / 0 / query", "Packetbeat's only event is our third"},

	{"percona", "percona__tcpdump-1402776 / 38784 Query 1 / event", noReply},
	{"percona", "percona__tcpdump013 / 49663 Query 1 / event", noReply},
	{"percona", "percona__tcpdump014 / 1 Query / warnings", "one byte of the compressed response was captured: nothing of it can be read"},
	{"percona", "percona__tcpdump014 / 1 Query / first_byte", "one byte of the compressed response was captured: nothing of it can be read"},
	{"percona", "percona__tcpdump017 / all / events", "four copies of a query that overlap, see above"},
	{"percona", "percona__tcpdump018 / 2 Query / event", "to the server on port 12347, which is not watched here"},
	{"percona", "percona__tcpdump031 / 1 Query / event", edited},
	{"percona", "percona__tcpdump031 / 35957 Query 1 / event", edited},
	{"percona", "percona__tcpdump032 / 1 Query / event", edited},
	{"percona", "percona__tcpdump032 / 35957 Query 1 / event", edited},
	{"percona", "percona__tcpdump037 / 2 Query / event", "the query was retransmitted after the Quit: the source throws the first away and takes the repeat, we keep the first"},
	{"percona", "percona__tcpdump037 / 57890 Query 1 / event", "as above"},
	{"percona", "percona__tcpdump042 / 1 login / error", noError},
	{"percona", "percona__tcpdump044 / 1 login / error", noError},

	{"mysqlaudittest", "mysqlaudittest__04-AbnormalPacket_04_005 / 2 / event", "the second request was taken out of the capture by hand; its response is counted as skipped bytes"},
}
