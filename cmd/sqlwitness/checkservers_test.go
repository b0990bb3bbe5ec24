package main

import (
	"net/netip"
	"testing"

	"sqlwitness/watcher"
)

// TestCheckPorts: each port of a server has its finding, by what the port is for and
// by what is captured.
func TestCheckPorts(t *testing.T) {
	at := func(all ...string) (out []netip.AddrPort) {
		for _, a := range all {
			out = append(out, netip.MustParseAddrPort(a))
		}
		return out
	}
	renamed := watcher.Answer{Roles: map[uint16]watcher.PortRole{3400: watcher.PortX, 3401: watcher.PortAdmin}, Server: watcher.ServerInfo{Port: 33060}}
	for name, c := range map[string]struct {
		ports  []uint16
		server listener
		answer watcher.Answer
		grade  grade
		words  []string
		none   bool // no port is audited
	}{
		"audited":          {[]uint16{3306}, listener{ports: at("0.0.0.0:3306", "[::]:3306")}, watcher.Answer{}, gradeOK, []string{"port 3306 is audited"}, false},
		"another port":     {[]uint16{3306}, listener{ports: at("127.0.0.1:3307")}, watcher.Answer{}, gradeWarn, []string{"port 3307 is not captured", "--port 3306,3307"}, true},
		"X by default":     {[]uint16{3306}, listener{ports: at("[::]:3306", "[::]:33060")}, watcher.Answer{}, gradeWarn, []string{"33060 (X)", "not understood", "mysqlx=OFF"}, false},
		"X though watched": {[]uint16{33060}, listener{ports: at("[::]:33060")}, watcher.Answer{}, gradeWarn, []string{"33060 (X)"}, true},
		"X elsewhere":      {[]uint16{3400}, listener{ports: at("[::]:3400")}, renamed, gradeWarn, []string{"3400 (X)"}, true},
		"no X at all":      {[]uint16{33060}, listener{ports: at("[::]:33060")}, renamed, gradeOK, []string{"port 33060 is audited"}, false},
		"admin by default": {[]uint16{3306}, listener{ports: at("127.0.0.1:33062")}, watcher.Answer{}, gradeWarn, []string{"33062 (admin) is not captured"}, true},
		"admin watched":    {[]uint16{3401}, listener{ports: at("127.0.0.1:3401")}, renamed, gradeOK, []string{"3401 (admin) is audited"}, false},
		"namespace":        {[]uint16{3306}, listener{pid: 7, elsewhere: true, ports: at("0.0.0.0:3306")}, watcher.Answer{}, gradeWarn, []string{"another network namespace", "nsenter -t 7 -n"}, false},
		"no TCP":           {[]uint16{3306}, listener{paths: []string{"/run/x.sock"}}, watcher.Answer{}, gradeWarn, []string{"no TCP port", "skip_networking"}, true},
		"hidden":           {[]uint16{3306}, listener{hidden: true}, watcher.Answer{}, gradeWarn, []string{"belongs to another user", "as root"}, false},
		"sockets":          {[]uint16{3306}, listener{paths: []string{"/run/x.sock"}, sockets: 2}, watcher.Answer{}, gradeWarn, []string{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			config := defaultConfig()
			config.Capture.Ports = c.ports
			d := &doctor{config: &config}
			c.server.program = "mysqld"
			d.checkServers([]listener{c.server}, c.answer)
			got := checked{Findings: d.findings}
			got.want(t, "servers", c.grade, c.words...)
			if down := d.count(gradeDown) > 0; down != c.none {
				t.Errorf("down %t, want %t: %+v", down, c.none, d.findings)
			}
		})
	}
}

// TestMissedDevice: a server that is reached through a device which is not captured
// is named with it.
func TestMissedDevice(t *testing.T) {
	config := defaultConfig()
	config.Capture.Interfaces = []string{"lo"}
	d := &doctor{config: &config}
	s := listener{program: "mysqld", ports: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:3306")}}
	if missed := d.missedAddresses(&s, 3306); len(missed) > 0 {
		t.Errorf("missed %v, though it is bound to the loopback device", missed)
	}
	s.ports = []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:3306")}
	all := defaultConfig()
	whole := &doctor{config: &all}
	if missed := whole.missedAddresses(&s, 3306); len(missed) > 0 {
		t.Errorf("auto misses %v", missed)
	}
}

// TestGrantee: an account is quoted as GRANT needs it.
func TestGrantee(t *testing.T) {
	for account, want := range map[string]string{"watch@%": "'watch'@'%'", "a@b@localhost": "'a@b'@'localhost'", "o'brien@10.%": "'o''brien'@'10.%'", "": "the account"} {
		if got := grantee(account); got != want {
			t.Errorf("%q is %s, want %s", account, got, want)
		}
	}
}

// TestLocalDataDir: the disk of a server's data is looked at if it is this machine's.
func TestLocalDataDir(t *testing.T) {
	for _, c := range []struct{ address, socket, want string }{
		{"127.0.0.1:3306", "", "/data"},
		{"127.0.0.2:3306", "", "/data"},
		{"[::1]:3306", "", "/data"},
		{"localhost:3306", "", "/data"},
		{"", "/run/mysqld.sock", "/data"},
		{"192.0.2.1:3306", "", ""},
		{"[2001:db8::1]:3306", "", ""},
		{"db1:3306", "", ""},
	} {
		config := defaultConfig()
		d := &doctor{config: &config}
		d.config.Watch.Address, d.config.Watch.Socket = c.address, c.socket
		if got := d.localDataDir(watcher.Answer{DataDir: "/data"}); got != c.want {
			t.Errorf("%q %q: %q", c.address, c.socket, got)
		}
	}
}
