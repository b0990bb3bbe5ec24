package sender

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// What follows asks the system, and opens and makes nothing: a configuration may be
// checked while an agent runs with it. What only the real thing shows, such as a file
// that another process has or a file system on which nothing can be made, it lets pass.

// CheckAuditFile tells whether NewFileSink may open the file, in its words.
func CheckAuditFile(path string) error {
	path = filepath.Clean(follow(path))
	err := CheckOpen(path)
	if info, serr := os.Stat(path); err == nil && serr == nil && info.Mode().IsRegular() {
		err = pathError("chmod", path, mayChmod(info))
	}
	if err != nil {
		return openingFile(err)
	}
	return nil
}

// CheckSpoolDir tells whether OpenSpool may open the directory, or make it, in its
// words.
func CheckSpoolDir(dir string) error {
	if err := checkSpoolDir(dir); err != nil {
		return openingSpool(err)
	}
	return nil
}

func checkSpoolDir(dir string) error {
	missing := ""
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return &fs.PathError{Op: "mkdir", Path: at, Err: syscall.ENOTDIR}
		case err == nil && missing == "":
			return CheckOpen(filepath.Join(dir, spoolLock))
		case err == nil:
			if _, err := os.Lstat(missing); err == nil { // a link to nothing
				return pathError("mkdir", missing, syscall.EEXIST)
			}
			return pathError("mkdir", missing, mayMakeIn(at))
		case filepath.Dir(at) == at:
			return err
		}
		missing = at
	}
}

// CheckOpen tells whether a file may be opened for reading and writing, and made if it
// is not there.
func CheckOpen(path string) error { return pathError("open", path, mayOpen(path)) }

func mayOpen(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return syscall.EISDIR
	case err == nil:
		return mayReadAndWrite(path)
	case !errors.Is(err, fs.ErrNotExist):
		return errors.Unwrap(err)
	}
	if to, err := os.Readlink(path); err == nil { // it would be made where the link leads
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		return mayOpen(to)
	}
	return mayMakeIn(filepath.Dir(path))
}

// CheckMake tells whether files may be made in a directory. The error has the name.
func CheckMake(dir, name string) error {
	return pathError("open", filepath.Join(dir, name), mayMakeIn(dir))
}

func mayMakeIn(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return errors.Unwrap(err)
	case !info.IsDir():
		return syscall.ENOTDIR
	}
	return mayWriteDir(dir)
}

// pathError is an error as package os has it; nil if err is.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
