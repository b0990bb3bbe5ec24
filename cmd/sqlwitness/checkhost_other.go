//go:build !linux

package main

func kernelRelease() (release string, fine bool) { return "", false }

func availableMemory() int64 { return 0 }

func sameDisk(string, string) bool { return false }
