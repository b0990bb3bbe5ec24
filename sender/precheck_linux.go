package sender

import (
	"io/fs"
	"syscall"
)

// faccessat(2): of the flags and modes in fcntl.h and unistd.h.
const (
	atCWD       = -0x64
	atEffective = 0x200
	accessExec  = 1
	accessWrite = 2
	accessRead  = 4
)

// mayReadAndWrite asks for this process as it is, with its capabilities.
func mayReadAndWrite(path string) error {
	return access(path, accessRead|accessWrite)
}

func mayWriteDir(dir string) error { return access(dir, accessWrite|accessExec) }

func access(path string, mode uint32) error {
	return syscall.Faccessat(atCWD, path, mode, atEffective)
}

// mayChmod knows the owner and root, not every way to have CAP_FOWNER.
func mayChmod(info fs.FileInfo) error {
	of, ok := info.Sys().(*syscall.Stat_t)
	if me := syscall.Geteuid(); ok && me != 0 && of.Uid != uint32(me) {
		return syscall.EPERM
	}
	return nil
}
