package stream

import (
	"bytes"
	"net/netip"
	"time"

	"sqlwitness/probe"
)

// Config is what the connections of a shard share. The zero value of a field
// means its default.
type Config struct {
	Mode        probe.Mode    // what the capture filter lets pass
	MaxSQLBytes int           // bytes kept of a statement; 64 KiB
	MaxHeld     int           // bytes that one connection may hold out of order; 1 MiB
	GapWait     time.Duration // how long a hole may stay open that nothing tells of; 1 s

	Params         bool // events carry the bound values of executed statements
	Statements     int  // prepared statements remembered of one connection; 1,024
	StatementBytes int  // bytes of their texts, of all connections of the shard; 32 MiB
}

func (c *Config) setDefaults() {
	if c.MaxSQLBytes == 0 {
		c.MaxSQLBytes = 64 << 10
	}
	if c.MaxHeld == 0 {
		c.MaxHeld = 1 << 20
	}
	if c.GapWait == 0 {
		c.GapWait = time.Second
	}
	if c.Statements == 0 {
		c.Statements = 1024
	}
	if c.StatementBytes == 0 {
		c.StatementBytes = 32 << 20
	}
}

// Env is what the connections of one shard have in common. It belongs to one
// goroutine.
type Env struct {
	Stats Stats

	config     Config
	emit       func(*Event)
	event      Event // reused for every emit
	inflater   inflater
	texts      texts
	params     params
	transcoder Transcoder
	names      map[string]string
	tallies    []Tally
	lastID     uint64
	whole      packet      // in hand, of whichever connection
	queues     [][]command // empty ones that no connection uses
	warmth     int64       // see warm.go
}

// NewEnv returns the common part of a shard's connections. Emit receives every
// event; the event is valid during the call.
func NewEnv(config Config, emit func(*Event)) *Env {
	config.setDefaults()
	return &Env{config: config, emit: emit}
}

// NewSessionID numbers a session of the shard that no connection makes.
func (e *Env) NewSessionID() uint64 {
	e.lastID++
	return e.lastID
}

// maxNames bounds the strings that the connections of a shard share, maxNameBytes
// their length.
const (
	maxNames     = 4096
	maxNameBytes = 256
	// maxShownName bounds each of them.
	maxShownName = 1024
)

// name returns b as a string, one copy for all connections: users, schemas,
// programs and versions are few. No server knows a longer one than maxShownName; the
// client of an attacker may send 16 MiB.
func (e *Env) name(b []byte) string {
	if len(b) > maxShownName {
		b = bytes.ToValidUTF8(b[:maxShownName], nil)
	}
	if s, ok := e.names[string(b)]; ok {
		return s
	}
	if e.names == nil || len(e.names) >= maxNames {
		e.names = make(map[string]string)
	}
	s := string(b)
	if len(s) <= maxNameBytes {
		e.names[s] = s
	}
	return s
}

// phase is what a connection is doing.
type phase uint8

const (
	phaseNew     phase = iota // nothing read yet
	phaseLogin                // greeting read, the client's answer is next
	phaseAuth                 // until the server accepts or refuses the login
	phaseCommand              // commands and responses
	phaseSync                 // looking for a command boundary
	phaseOpaque               // TLS, or not understood: bytes are counted only
)

// A Conn is one MySQL connection. It is fed by one goroutine.
//
// With thousands of connections each batch finds them out of the cache. So what a
// plain command and its response need comes first, and what logins, prepared
// statements and doubts need behind it; Session, of which Encoded comes first, lies
// between.
type Conn struct {
	env     *Env
	tally   *Tally    // of the server
	zip     *zipLayer // nil: no compression
	opening *opening  // a PROXY header or a ServerHello that is not whole, or what comes behind a login; nil: nothing
	waiting []command // commands whose response is not complete, oldest first
	retired []*buffer // of held segments that were taken in this batch
	kept    int       // what account told last

	phase       phase
	met         bool // its handshake was seen
	counted     bool // in tally.Connects
	started     bool // session_start or login_failed was emitted
	midStream   bool // joined after the login
	loginOpen   bool // the end of the login was lost
	refused     bool // the login was refused
	confirmed   bool // it has shown that it speaks MySQL
	exact       bool // the last command ended where its segment did
	requestLost bool // a command boundary of the client has to be found
	blind       bool // where the client's bytes begin is its own word, the server was not heard yet
	quit        bool // COM_QUIT was sent
	killed      bool // the server ended the connection
	done        bool // FIN both ways, or RST and silence
	mariadb     bool
	ansiTold    bool // the server reports ANSI_QUOTES in its status flags
	statusSeen  bool
	dbKnown     bool
	unconfirmed bool // user or schema are what the client asked for, the answer was withheld
	dropped     bool // a command has dropped all statements
	prepares    bool // a statement that may change the schema was prepared in SQL
	userSource  UserSource

	status         uint16
	collation      uint16
	loginCollation uint16 // what COM_RESET_CONNECTION goes back to
	caps           capabilities
	pendingFlags   EventFlags // for the next command
	lastRequestSeq uint32
	lastRequest    []byte // the client's bytes that were taken last, borrowed until Settle

	firstNs, lastNs int64 // capture time of the first and last segment
	freshNs         int64 // and of the last that brought something new
	answeredNs      int64 // and of the last packet that answers a command
	heardNs         int64 // and of the server's last segment, 0 = what it has received is not known, see hole.go
	resetNs         int64 // when a RST came that nothing has followed; 0 = none
	totals
	client  half
	server  half
	request framer
	reply   framer
	resp    response // of waiting[0]
	user    string
	db      string
	claim   *Claim // what the client says of its sequence numbers, and the server does not yet; nil: nothing
	doubt   *doubt // whether the user is still the same; nil: none
	passed  passed
	unsent  extent // of the server's bytes: what was given up last

	lastPrepared uint32 // id of the statement that was prepared last
	session      Session

	login            *identity // what the login asks for, until the server answers
	userNs, schemaNs int64     // when the user and the schema were last changed, or may have been
	// The same as numbers of commands: what is known now holds for those behind.
	userFrom, schemaFrom uint64

	statements map[uint32]*statement
}

// opening collects the first bytes of a direction, until what they say is whole, or
// what the client sends behind a login that is not answered.
type opening struct {
	proxy  []byte
	client netip.AddrPort // of a PROXY header that awaits the greeting
	tls    bool           // a ServerHello is awaited
	hello  []byte
	early  []heldSegment // behind the login, see early.go
	cut    bool          // and more of the client's bytes that were not kept
}

// size is the memory of what is collected.
func (o *opening) size() int {
	if o == nil {
		return 0
	}
	n := cap(o.proxy) + cap(o.hello) + len(o.early)*heldOverhead
	for i := range o.early {
		n += o.early[i].own.size()
	}
	return n
}

// identity is a user and schema that the server has not confirmed yet.
type identity struct {
	user, db  string
	collation uint16
}

// NewConn returns the state of a connection whose first segment is about to be fed.
func NewConn(env *Env, flow probe.Flow) *Conn {
	c := &Conn{env: env, tally: env.tally(flow.Server)}
	c.session.Client, c.session.Server = flow.Client, flow.Server
	return c
}

// Handshake tells where both directions of the connection begin, as the server's SYN-ACK
// said: then its first bytes are known, whatever the order in which the first segments
// come.
func (c *Conn) Handshake(client, server uint32) {
	c.met, c.client.opened = true, true
	c.client.start(client)
	c.server.start(server)
}

// ClientLeft tells, behind Handshake, that the client has sent its FIN and nothing else.
func (c *Conn) ClientLeft() {
	c.client.next++
	c.client.closed = true
}

// Confirmed reports that the connection has shown that it speaks MySQL, and more
// than a greeting.
func (c *Conn) Confirmed() bool { return c.confirmed && c.phase != phaseLogin }

// Done reports that both ends have closed the connection, or one has reset it.
func (c *Conn) Done() bool { return c.done }

// FirstNs is the capture time of the first segment.
func (c *Conn) FirstNs() int64 { return c.firstNs }

// LastNs is the capture time of the last segment.
func (c *Conn) LastNs() int64 { return c.lastNs }

// AnsweredNs is the capture time of the last packet in which the server answered a
// command, 0 = none: it had the connection then. Repeats, and what lies behind a hole
// that is not given up, are no answers.
func (c *Conn) AnsweredNs() int64 { return c.answeredNs }

// Waits reports that something of the connection depends on time, such as
// segments that it holds back: Settle must be called at every tick.
func (c *Conn) Waits() bool {
	return c.holds() || c.claim != nil || c.filtered() && (len(c.waiting) > 0 || c.request.started)
}

func (c *Conn) holds() bool { return len(c.client.held) > 0 || len(c.server.held) > 0 }

func (c *Conn) halfOf(s *probe.Segment) *half {
	if s.FromClient {
		return &c.client
	}
	return &c.server
}

// Feed takes one segment. It borrows the segment's payload until Settle.
func (c *Conn) Feed(s *probe.Segment) {
	st := &c.env.Stats
	st.Segments++
	st.Bytes += uint64(len(s.Payload))
	if c.firstNs == 0 {
		c.firstNs = s.TimeNs
	}
	c.lastNs = max(c.lastNs, s.TimeNs)
	if s.FromClient {
		if (s.Seq != c.client.next || s.Flags&probe.SYN != 0) && c.claims(s) {
			return
		}
	} else if c.claim != nil {
		c.judge(s)
	}
	c.learn(s)
	if s.Flags&probe.RST != 0 {
		c.noteReset(s)
	}
	if !s.FromClient && c.filtered() {
		c.responseBytes += uint64(len(s.Payload))
		c.feedReply(s)
		return
	}
	h := c.halfOf(s)
	if len(h.held) == 0 && s.Seq == h.next && c.caused(s) {
		c.takeSegment(h, s)
	} else {
		c.arrange(h, s)
	}
	if c.holds() {
		c.takeHeld()
	}
}

// learn takes initial sequence numbers from the first segments: those of the
// sender from its Seq, those of its peer from its Ack.
func (c *Conn) learn(s *probe.Segment) {
	from, to := &c.client, &c.server
	if !s.FromClient {
		from, to = to, from
		c.heardNs = s.TimeNs
	}
	if !from.known {
		c.blind = s.FromClient && s.Flags&probe.SYN == 0 && c.env.config.Mode != probe.ModeNone
		from.start(s.Seq)
		if s.Flags&probe.SYN != 0 {
			from.start(s.Seq + 1)
			c.client.opened = true
		}
	}
	if s.Flags&probe.ACK == 0 {
		return
	}
	if c.blind && !s.FromClient {
		c.beginAt(s.Ack)
		c.blind = false
	}
	if !to.known {
		to.start(s.Ack)
	}
	if seqLess(to.acked, s.Ack) && !jumps(to.next, s.Ack) {
		to.acked = s.Ack
	}
}

// caused reports that all that the sender had received when it sent s has been
// taken: a response is not read before its command, nor a command before the
// end of the response that preceded it.
func (c *Conn) caused(s *probe.Segment) bool {
	if s.Flags&probe.ACK == 0 {
		return true
	}
	peer := &c.server
	if !s.FromClient {
		peer = &c.client
	}
	return !seqLess(peer.next, s.Ack) || s.FromClient && c.filtered() || jumps(peer.next, s.Ack)
}

// arrange handles a segment that is not simply the next one.
func (c *Conn) arrange(h *half, s *probe.Segment) {
	st := &c.env.Stats
	if jumps(h.next, s.Seq) {
		c.jump(h, s)
		return
	}
	if s.FromClient {
		c.reopen(s)
	}
	c.compare(h, s)
	seg := *s
	cut := h.trim(&seg)
	if cut > 0 && cut == len(s.Payload) && c.outlived(s) {
		c.jump(h, s)
		return
	}
	st.RepeatedBytes += uint64(cut)
	if len(seg.Payload) == 0 && seg.Snipped == 0 && seg.Flags&probe.FIN == 0 {
		return
	}
	if seqLess(seg.Seq, h.next) { // an old FIN
		return
	}
	if c.env.config.Mode == probe.ModeNone && seg.FromClient {
		c.skipWithheld(h, seg.Seq)
		c.takeSegment(h, &seg)
		return
	}
	if seg.Seq == h.next && c.caused(&seg) {
		c.takeSegment(h, &seg)
		return
	}
	if h.keeps()+len(seg.Payload) > c.env.config.MaxHeld {
		c.giveUpHole(h)
	}
	h.hold(&seg)
	st.HeldBytes += uint64(len(seg.Payload))
	if seg.FromClient && len(seg.Payload) > 0 {
		c.tally.Held++
	}
}

// takeHeld takes all held segments that have become next, of both directions in
// turn.
func (c *Conn) takeHeld() {
	for progress := true; progress; {
		progress = false
		for _, h := range [...]*half{&c.client, &c.server} {
			for len(h.held) > 0 {
				first := &h.held[0].seg
				if seqLess(h.next, first.Seq) || !c.caused(first) {
					break
				}
				c.takeNext(h)
				progress = true
			}
		}
	}
}

// takeNext takes the first held segment, which lies at or before next.
func (c *Conn) takeNext(h *half) {
	held := h.pop()
	c.release(&held)
	c.env.Stats.RepeatedBytes += uint64(h.trim(&held.seg))
	if !seqLess(held.seg.Seq, h.next) {
		c.takeSegment(h, &held.seg)
	}
	if held.own != nil { // what was read from it may borrow until Settle
		c.retired = append(c.retired, held.own)
	}
}

// takeSegment reads a segment that begins at h.next.
func (c *Conn) takeSegment(h *half, s *probe.Segment) {
	if s.Flags&probe.SYN != 0 {
		return // learn has counted it
	}
	n := s.WireLen()
	h.next += uint32(n)
	if n > 0 {
		c.freshNs = s.TimeNs
	}
	if c.resetNs != 0 && n > 0 {
		c.goesOn(s)
	}
	if len(s.Payload) > 0 {
		if s.FromClient {
			c.lastRequest, c.lastRequestSeq = s.Payload, s.Seq
		}
		if s.FromClient {
			c.readRequest(s)
		} else {
			c.readReply(s)
		}
	}
	if s.Snipped > 0 {
		c.lost(h, s.Snipped, s.TimeNs, FlagSnapped)
	}
	if s.Flags&probe.FIN != 0 {
		h.next++
		h.closed = true
		c.done = c.done || c.client.closed && c.server.closed
	}
}
