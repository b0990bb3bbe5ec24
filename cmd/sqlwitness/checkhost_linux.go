package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelRelease is the kernel's version, and whether it is new enough.
func kernelRelease() (release string, fine bool) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown", true
	}
	release = unix.ByteSliceToString(u.Release[:])
	return release, newEnough(release)
}

func newEnough(release string) bool {
	var have, need [2]int
	fmt.Sscanf(needKernel, "%d.%d", &need[0], &need[1])
	if n, _ := fmt.Sscanf(release, "%d.%d", &have[0], &have[1]); n != 2 {
		return true
	}
	return have[0] > need[0] || have[0] == need[0] && have[1] >= need[1]
}

// availableMemory is what programs may still take, proc_meminfo(5); 0 if unknown.
func availableMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// sameDisk tells whether two paths are on one file system.
func sameDisk(a, b string) bool {
	var sa, sb unix.Stat_t
	return unix.Stat(a, &sa) == nil && unix.Stat(b, &sb) == nil && sa.Dev == sb.Dev
}
