//go:build linux

package mariadb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const auditLibrary = "server_audit.so"

// AuditPlugin is the path of server_audit.so for the installed mariadbd. Debian
// ships it in mariadb-server, whose installation would start a service; where
// it is not installed the package is fetched and unpacked, not installed, into
// a directory below os.UserCacheDir that is kept for the next time.
func AuditPlugin(ctx context.Context) (string, error) {
	for _, pattern := range []string{"/usr/lib/mysql/plugin", "/usr/lib/*/mariadb*/plugin", "/usr/lib64/mysql/plugin"} {
		if found, _ := filepath.Glob(filepath.Join(pattern, auditLibrary)); len(found) > 0 {
			return found[0], nil
		}
	}
	version, err := packageVersion(ctx)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "sqlwitness-bench", "plugin-"+strings.NewReplacer(":", "_", "/", "_").Replace(version))
	path := filepath.Join(dir, auditLibrary)
	if os.Getuid() == 0 { // apt-get fails where another test installs
		unlock, err := lockInstalling()
		if err != nil {
			return "", err
		}
		defer unlock()
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, fetchPlugin(ctx, version, dir)
}

// packageVersion is the version of the installed server, which a plugin must
// match.
func packageVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f=${Version}", "mariadb-server-core").Output()
	if err != nil {
		return "", fmt.Errorf("find %s: mariadb-server-core is not a Debian package here: %w", auditLibrary, err)
	}
	return string(out), nil
}

func fetchPlugin(ctx context.Context, version, dir string) error {
	tmp, err := os.MkdirTemp("", "sqlwitness-plugin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	script := `apt-get download -q "mariadb-server=$1" || { apt-get update -q && apt-get download -q "mariadb-server=$1"; }
	dpkg -x mariadb-server_*.deb x`
	cmd := exec.CommandContext(ctx, "sh", "-ec", script, "sh", version)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch %s: %w: %s", auditLibrary, err, tail(out))
	}
	lib, err := os.ReadFile(filepath.Join(tmp, "x/usr/lib/mysql/plugin", auditLibrary))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Rename, so that a test that runs at the same time never loads half a file.
	part := filepath.Join(dir, fmt.Sprintf(".%s.%d", auditLibrary, os.Getpid()))
	if err := os.WriteFile(part, lib, 0o644); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(dir, auditLibrary))
}
