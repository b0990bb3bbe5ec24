//go:build linux

package mariadb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// args is mariadbd's command line. It is small and fast rather than safe: the
// data live as long as the test.
func (s *Server) args(ctx context.Context, o Options) ([]string, error) {
	bind := o.Bind
	if bind == "" {
		bind = "127.0.0.1,::1"
	}
	args := append([]string{"mariadbd", "--no-defaults"}, asUser()...)
	args = append(args,
		"--datadir="+s.dataDir(), "--tmpdir="+s.tmpDir(), "--socket="+s.Socket, "--pid-file="+filepath.Join(s.Dir, "pid"),
		"--bind-address="+bind, fmt.Sprintf("--port=%d", s.Port),
		// Names would be looked up for every new client address.
		"--skip-name-resolve", "--character-set-server=utf8mb4",
		"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync",
		"--skip-log-bin", "--transaction-isolation=READ-COMMITTED", "--performance-schema=OFF", "--max-connections=300",
		"--max-allowed-packet=64M", "--log-warnings=1", "--local-infile=1")
	logs, err := s.logArgs(ctx, o)
	if err != nil {
		return nil, err
	}
	args = append(args, logs...)
	if o.TLS {
		tls, err := writeCertificate(s.Dir)
		if err != nil {
			return nil, err
		}
		args = append(args, tls...)
	}
	init := filepath.Join(s.Dir, "init.sql")
	if err := os.WriteFile(init, []byte(initSQL(o)), 0o600); err != nil {
		return nil, err
	}
	return append(append(args, "--init-file="+init), o.Args...), nil
}

// logArgs turns on the sources of truth. The logs go to files and not to
// tables: tables rewrite binary bytes.
func (s *Server) logArgs(ctx context.Context, o Options) ([]string, error) {
	args := []string{"--log-output=FILE"}
	if o.GeneralLog {
		s.GeneralLog = filepath.Join(s.Dir, "general.log")
		args = append(args, "--general-log=1", "--general-log-file="+s.GeneralLog)
	}
	if o.SlowLog {
		s.SlowLog = filepath.Join(s.Dir, "slow.log")
		args = append(args, "--slow-query-log=1", "--slow-query-log-file="+s.SlowLog,
			"--long-query-time=0", "--min-examined-row-limit=0",
			"--log-slow-verbosity=query_plan", "--log-slow-disabled-statements=sp",
			"--log-slow-admin-statements=1", "--log-slow-rate-limit=1")
	}
	if o.Audit {
		plugin, err := AuditPlugin(ctx)
		if err != nil {
			return nil, err
		}
		s.AuditLog = filepath.Join(s.Dir, "audit.log")
		args = append(args, "--plugin-dir="+filepath.Dir(plugin), "--plugin-load-add=server_audit",
			"--server-audit-logging=ON", "--server-audit-events=CONNECT,QUERY",
			"--server-audit-file-path="+s.AuditLog, "--server-audit-file-rotate-size=2000000000",
			"--server-audit-query-log-limit=200")
	}
	return args, nil
}

// initSQL makes the accounts; an init file holds one statement per line.
func initSQL(o Options) string {
	var b strings.Builder
	for _, u := range o.Users {
		fmt.Fprintf(&b, "CREATE USER '%s'@'%%' IDENTIFIED BY '%s';\n", u.Name, u.Password)
		fmt.Fprintf(&b, "GRANT ALL ON *.* TO '%s'@'%%' WITH GRANT OPTION;\n", u.Name)
	}
	b.WriteString(o.Init)
	return b.String()
}
