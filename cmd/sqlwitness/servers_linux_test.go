package main

import "testing"

// TestProcAddress: the addresses of /proc/net/tcp and tcp6, as the kernel printed them.
func TestProcAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:0CEA":                         "127.0.0.1:3306",
		"00000000:8124":                         "0.0.0.0:33060",
		"00000000000000000000000000000000:0CEA": "[::]:3306",
		"00000000000000000000000001000000:0CEA": "[::1]:3306",
		"0000000000000000FFFF00000100007F:0CEA": "127.0.0.1:3306",
		"B80D01200000000000000000010000FE:0CEB": "[2001:db8::fe00:1]:3307",
	} {
		if got, ok := procAddress(text); !ok || got.String() != want {
			t.Errorf("%s is %v, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "0100007F", "01007F:0CEA", "0100007G:0CEA", "0100007F:CEAXX"} {
		if got, ok := procAddress(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
	for release, want := range map[string]bool{"4.12.0": true, "4.18.0-553.el8.x86_64": true, "5.10.0-21-amd64": true, "6.1": true, "4.11.12": false, "3.10.0-1160.el7": false, "strange": true} {
		if newEnough(release) != want {
			t.Errorf("Linux %s: new enough is not %t", release, want)
		}
	}
}
