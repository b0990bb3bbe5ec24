package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sqlwitness/sender"
)

// sinkCures say what helps against each cause.
var sinkCures = map[sender.Cause]string{
	sender.CauseUnreachable: "is it up, and the address right? A broker that expects TLS or SASL closes the connection",
	sender.CauseTimeout:     "no answer: a firewall, or a broker that expects TLS",
	sender.CauseExpired:     "renew the certificate",
	sender.CauseCertificate: "tls.ca must name the authority of the other side's certificate, tls.server_name a name in it",
	sender.CauseTLS:         "does the other side use TLS, and accept this side's certificate (tls.cert)?",
	sender.CauseLogin:       "check sasl.mechanism, sasl.user and sasl.password_file",
	sender.CauseForbidden:   "the account needs WRITE and DESCRIBE on the topic",
	sender.CauseTopic:       "make the topic, or name another in sinks.topic",
	sender.CauseUnavailable: "the broker's log tells more",
}

// certificateSoon is how long before its end a certificate is warned of.
const certificateSoon = 30 * 24 * time.Hour

func (d *doctor) checkSinks(ctx context.Context) {
	for i := range d.config.Sinks {
		s := &d.config.Sinks[i]
		name := "sink " + s.name()
		switch s.Type {
		case "stdout":
			d.ok(name, "standard output")
		case "file":
			d.checkFile(name, s)
		case "kafka":
			cluster, err := s.cluster()
			if err != nil {
				d.say(gradeDown, name, err.Error(), "")
				continue
			}
			d.checkKafka(ctx, name, cluster, s.Topic)
		case "thrift":
			d.checkPeers(ctx, name, "collector", s.Collectors, s.TLS.sender())
		}
	}
}

// checkFile looks whether an audit file can be written and has room to grow.
func (d *doctor) checkFile(name string, s *sinkConfig) {
	dir := filepath.Dir(s.Path)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	if err == nil {
		_, err = sender.CheckDir(dir)
	}
	if info, serr := os.Stat(s.Path); err == nil && serr == nil {
		if info.IsDir() {
			err = fmt.Errorf("%s is a directory", s.Path)
		} else if f, oerr := os.OpenFile(s.Path, os.O_RDWR|os.O_APPEND, 0); oerr != nil {
			err = oerr
		} else {
			f.Close()
		}
	}
	if err != nil {
		d.say(gradeDown, name, err.Error(), "make the directory, and let the agent's user write there")
		return
	}
	free, total := sender.DiskSpace(dir)
	most := uint64(s.mostBytes())
	switch {
	case total == 0:
		d.ok(name, "%s can be written", s.Path)
	case free < 64<<20:
		d.say(gradeDown, name, fmt.Sprintf("%s: %d MiB are free", dir, free>>20), "free space")
	case most > 0 && free < most:
		d.say(gradeWarn, name, fmt.Sprintf("%s: %d MiB are free, the files may grow to %d", dir, free>>20, most>>20), "free space, or lower max_mib or files")
	default:
		d.ok(name, "%s can be written, %d MiB are free", s.Path, free>>20)
	}
}

// mostBytes is what the files of a file sink may take, not compressed; 0 if there is
// no bound.
func (s *sinkConfig) mostBytes() int64 {
	mib, files := s.MaxMiB, s.Files
	if mib == 0 {
		mib = defaultFileMiB
	}
	if files == 0 {
		files = defaultFiles
	}
	return int64(max(mib, 0)) * int64(files+1) << 20
}

// checkKafka asks for the topic as the agent would, and looks at each broker. It tells
// whether the brokers can be used.
func (d *doctor) checkKafka(ctx context.Context, name string, cluster sender.KafkaCluster, topic string) bool {
	if !d.checkPeers(ctx, name, "broker", cluster.Brokers, cluster.TLS) {
		return false
	}
	d.checkTopic(ctx, name, cluster, topic)
	return true
}

func (d *doctor) checkTopic(ctx context.Context, name string, cluster sender.KafkaCluster, topic string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	n, err := cluster.Partitions(ctx, topic)
	if err != nil {
		d.say(gradeDown, name, err.Error(), sinkCures[sender.CauseOf(err)])
		return
	}
	d.ok(name, "topic %s has %d partitions", topic, n)
}

// checkPeers connects to each address and looks at the certificates of both sides. It
// tells whether one of them can be used. One that is away is a warning if another is
// not.
func (d *doctor) checkPeers(ctx context.Context, name, what string, addresses []string, tls sender.TLSConfig) bool {
	if _, err := tls.Load(); err != nil && sender.CauseOf(err) != sender.CauseExpired {
		d.say(gradeDown, name, err.Error(), "tls.ca, tls.cert and tls.key name PEM files that the agent's user can read")
		return false
	}
	fine := d.checkOwnCertificates(name, tls)
	var failed []finding
	for _, address := range addresses {
		chain, err := tls.Peer(ctx, address)
		if err != nil {
			failed = append(failed, finding{name, gradeDown, fmt.Sprintf("%s %s: %v", what, address, err), sinkCures[sender.CauseOf(err)]})
			continue
		}
		if len(chain) == 0 {
			d.ok(name, "%s %s answers", what, address)
			continue
		}
		subject := fmt.Sprintf("%s %s: certificate of", what, address)
		if !d.checkCertificates(name, subject, chain[:1]) {
			fine = false
		} else if err := tls.Verify(chain, address); err != nil {
			d.say(gradeDown, name, fmt.Sprintf("%s %s: %v", what, address, err), sinkCures[sender.CauseCertificate])
			fine = false
		}
	}
	for _, f := range failed {
		if len(failed) < len(addresses) {
			f.Grade = gradeWarn
		}
		d.findings = append(d.findings, f)
	}
	return fine && len(failed) < len(addresses)
}

func (d *doctor) checkOwnCertificates(name string, tls sender.TLSConfig) bool {
	fine := true
	if authorities, err := tls.Authorities(); err == nil && len(authorities) > 0 {
		valid := 0
		for _, c := range authorities {
			if time.Now().Before(c.NotAfter) {
				valid++
			}
		}
		if valid == 0 {
			fine = d.checkCertificates(name, "tls.ca "+tls.CAFile+": authority", authorities[:1])
		}
	}
	if own, err := tls.Own(); err == nil && own != nil {
		fine = d.checkCertificates(name, "tls.cert "+tls.CertFile+": certificate of", []*x509.Certificate{own}) && fine
	}
	return fine
}

// checkCertificates judges by the dates.
func (d *doctor) checkCertificates(name, what string, all []*x509.Certificate) bool {
	fine := true
	for _, c := range all {
		now, until := time.Now(), c.NotAfter.UTC().Format(time.DateOnly)
		subject := what + " " + sender.CertificateName(c)
		switch {
		case now.After(c.NotAfter):
			fine = false
			d.say(gradeDown, name, fmt.Sprintf("%s expired on %s", subject, until), sinkCures[sender.CauseExpired])
		case now.Before(c.NotBefore):
			fine = false
			d.say(gradeDown, name, fmt.Sprintf("%s is valid only from %s on", subject, c.NotBefore.UTC().Format(time.DateOnly)), "is this machine's clock right?")
		case c.NotAfter.Sub(now) < certificateSoon:
			d.say(gradeWarn, name, fmt.Sprintf("%s expires in %d days, on %s", subject, int(c.NotAfter.Sub(now).Hours()/24), until), sinkCures[sender.CauseExpired])
		default:
			d.ok(name, "%s is valid until %s", subject, until)
		}
	}
	return fine
}

// checkFileDisks looks at what shares a disk with a server's data.
func (d *doctor) checkFileDisks(servers []listener, dataDir string) {
	for i := range d.config.Sinks {
		if s := &d.config.Sinks[i]; s.Type == "file" {
			d.checkShared("sink "+s.name(), filepath.Dir(s.Path), servers, dataDir)
		}
	}
}

// checkSpoolDisk looks at the spool, where a remote sink needs one.
func (d *doctor) checkSpoolDisk(servers []listener, dataDir string) {
	c := d.config
	remote := 0
	for i := range c.Sinks {
		if !c.Sinks[i].local() {
			remote++
		}
	}
	switch {
	case remote == 0:
	case c.Spool.Dir == "":
		d.say(gradeWarn, "spool", fmt.Sprintf("no spool.dir: while a remote sink is down only %d MiB of events wait, in memory", c.Limits.QueueMiB),
			"spool: {dir: /var/spool/sqlwitness}")
	default:
		d.checkSpool(remote)
		d.checkShared("spool", c.Spool.Dir, servers, dataDir)
	}
}

func (d *doctor) checkSpool(remote int) {
	s := &d.config.Spool
	tried, err := sender.CheckDir(s.Dir)
	if err != nil {
		d.say(gradeDown, "spool", "spool.dir: "+err.Error(), "let the agent's user write there")
		return
	}
	free, total := sender.DiskSpace(tried)
	keep, want := uint64(s.MinFree*float64(total)), uint64(s.MaxBytes)*uint64(remote)
	switch {
	case total == 0:
		d.ok("spool", "%s can be written", s.Dir)
	case free <= keep:
		d.say(gradeDown, "spool", fmt.Sprintf("%s: %d MiB are free, spool.min_free leaves %d MiB alone: nothing can be spooled", tried, free>>20, keep>>20),
			"free space, or lower spool.min_free")
	case free-keep < want:
		d.say(gradeWarn, "spool", fmt.Sprintf("%s: %d MiB may be used, spool.max_bytes of %d sinks are %d MiB", tried, (free-keep)>>20, remote, want>>20),
			"free space, or lower spool.max_bytes")
	default:
		d.ok("spool", "%s can be written, %d MiB may be used, up to %d are", s.Dir, (free-keep)>>20, want>>20)
	}
}

// checkShared warns of a directory on a disk that a server keeps its data on.
func (d *doctor) checkShared(name, dir string, servers []listener, dataDir string) {
	for _, err := os.Stat(dir); os.IsNotExist(err) && filepath.Dir(dir) != dir; _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	for i := range servers {
		if sameDisk(dir, servers[i].dataDir) {
			data, err := os.Readlink(servers[i].dataDir)
			if err != nil {
				data = "its data"
			}
			d.say(gradeWarn, name, fmt.Sprintf("%s is on the file system of %s's %s: events that wait take the server's space", dir, &servers[i], data),
				"a file system of its own")
			return
		}
	}
	if dataDir != "" && len(servers) == 0 && sameDisk(dir, dataDir) {
		d.say(gradeWarn, name, dir+" is on the file system of the server's "+dataDir, "a file system of its own")
	}
}
