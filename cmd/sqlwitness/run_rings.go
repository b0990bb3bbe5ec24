//go:build !libpcap

package main

import "flag"

// chooseEngine leaves the arguments alone: this build has one engine only.
func chooseEngine(args []string) (openEngine, []string, error) { return openRings, args, nil }

// engineFlag adds no flag either.
func engineFlag(*flag.FlagSet) {}
