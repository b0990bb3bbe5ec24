//go:build linux

package mariadb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// debianPackage names the package that brings each program this tree's tests
// and demonstrations call.
var debianPackage = map[string]string{
	"mariadbd": "mariadb-server-core", "mariadb-install-db": "mariadb-server-core",
	"mariadb": "mariadb-client-core", "sysbench": "sysbench", "ip": "iproute2", "nft": "nftables",
	"ethtool": "ethtool", "tcpdump": "tcpdump", "tcpreplay": "tcpreplay", "taskset": "util-linux", "nice": "coreutils", "thrift": "thrift-compiler",
	"pt-query-digest": "percona-toolkit",
}

// ErrMissing is what Ensure's error wraps where programs are missing and cannot
// be installed.
var ErrMissing = errors.New("programs are missing")

// Programs lists the programs that Start needs.
func Programs() []string { return []string{"mariadbd", "mariadb-install-db", "mariadb"} }

// Ensure looks for the programs and installs the Debian packages of those that
// are missing if it may: as root, with apt-get at hand. The -core packages
// start no service. An error is one line that says what to install.
func Ensure(ctx context.Context, programs ...string) error {
	if os.Getuid() == 0 {
		// A program is in its place some time before it runs: other packages with what
		// it needs may still be unpacked.
		unlock, err := lockInstalling()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
		defer unlock()
	}
	missing := missingPackages(programs)
	if len(missing) == 0 {
		return nil
	}
	hint := "apt-get install -y --no-install-recommends " + strings.Join(missing, " ")
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: not root; run: sudo %s", ErrMissing, hint)
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%w: no apt-get here; needed are the programs of %s", ErrMissing, strings.Join(missing, " "))
	}
	install := append([]string{"install", "-y", "--no-install-recommends", "--no-remove"}, missing...)
	if apt(ctx, install...) == nil {
		return nil
	}
	// A fresh image has no package lists.
	if err := apt(ctx, "update"); err != nil {
		return fmt.Errorf("%w: %w; run: %s", ErrMissing, err, hint)
	}
	if err := apt(ctx, install...); err != nil {
		return fmt.Errorf("%w: %w; run: %s", ErrMissing, err, hint)
	}
	return nil
}

// lockPath is what a test holds while it installs packages.
func lockPath() string { return filepath.Join(os.TempDir(), "sqlwitness-install.lock") }

// lockInstalling waits until no other test installs packages: apt-get does not
// wait, it fails.
func lockInstalling() (unlock func(), err error) {
	f, err := os.OpenFile(lockPath(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

func missingPackages(programs []string) []string {
	var missing []string
	seen := map[string]bool{}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		pkg := debianPackage[p]
		if pkg == "" {
			pkg = p
		}
		if !seen[pkg] {
			seen[pkg] = true
			missing = append(missing, pkg)
		}
	}
	return missing
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, tail(out))
	}
	return nil
}
