//go:build !libpcap

package main

// chooseEngine leaves the arguments alone: this build has one engine only.
func chooseEngine(args []string) (openEngine, []string, error) { return openRings, args, nil }
