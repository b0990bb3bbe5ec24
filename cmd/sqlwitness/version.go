package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionText names the program, its source and its compiler.
func versionText() string {
	return fmt.Sprintf("sqlwitness %s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version names the source.
func version() string {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 && version == "(devel)" {
				version = "devel " + s.Value[:12]
			}
		}
	}
	return version
}
