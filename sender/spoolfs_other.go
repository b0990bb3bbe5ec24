//go:build !linux

package sender

import "os"

func datasync(f *os.File) error { return f.Sync() }

// lockFile does not lock here: whoever starts two agents on one spool or file is
// not stopped.
func lockFile(*os.File) error { return nil }

// diskSpace is not known here.
func diskSpace(string) (free, total uint64) { return 0, 0 }
