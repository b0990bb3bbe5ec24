package peers

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes where this runs, and how busy it is now: figures of a busy
// machine are not to be trusted.
func Machine() []string {
	m := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		m[0] += " of " + name
	}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m = append(m, fmt.Sprintf("%d GiB", (kib+1<<19)>>20))
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
		m = append(m, "Linux "+release)
	}
	m = append(m, runtime.Version())
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ := strings.Cut(string(text), " ")
		m = append(m, "load average "+load+" at the start")
	}
	return m
}

// field is the value of the first line that begins with a name and has a colon.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
