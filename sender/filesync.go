package sender

import (
	"errors"
	"fmt"
	"syscall"
)

// Sync returns nil when all that was written is safe from a power failure, also what
// went to files that were renamed meanwhile. Behind an error, which is a RetryError, what
// was written since the last Sync is to be written again. A pipe or device has nothing to
// lose.
func (s *FileSink) Sync() error {
	err := s.keep.safe()
	if s.f != nil {
		err = errors.Join(err, whereSyncable(s.f.sync()))
		if s.plain && s.named != s.f { // a new file: its name is to be safe as well
			derr := whereSyncable(s.dir.syncDir())
			if derr == nil {
				s.named = s.f
			}
			err = errors.Join(err, derr)
		}
	}
	if err != nil {
		return &RetryError{Err: fmt.Errorf("sync audit file %s: %w", s.cfg.Path, err)}
	}
	return nil
}

// whereSyncable is err, unless it says that this kind of file or file system cannot be
// synced (EINVAL, fdatasync(2)): what was written there is as safe as it will be.
func whereSyncable(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
