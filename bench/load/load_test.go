//go:build linux

package load

import (
	"context"
	"os"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/truth"
)

// The record that a client keeps and the server's logs must tell the same: only
// then may either be held against an agent.
func TestRecordAgreesWithServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	srv := startServer(ctx, t)
	target := Target{Addr: srv.Addr("127.0.0.1"), Users: []string{"ann", "bob"}, Password: "s3cret"}
	n := 3000
	sessions, err := Run(ctx, target, Mix{Statements: n, Seed: 1, BigBytes: 5 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if got := truth.Count(sessions); got < n {
		t.Errorf("sent %d commands, want at least %d", got, n)
	}
	if err := Gone(ctx, srv.Socket); err != nil {
		t.Fatal(err)
	}
	srv.Shutdown()
	server, err := truth.Server(truth.Logs{General: srv.GeneralLog, Slow: srv.SlowLog, Audit: srv.AuditLog})
	if err != nil {
		t.Fatal(err)
	}
	diffs := truth.CrossCheck(server, sessions)
	for i, d := range diffs {
		if i == 20 {
			t.Errorf("… %d differences", len(diffs))
			break
		}
		t.Error(d)
	}
}

func startServer(ctx context.Context, t *testing.T) *mariadb.Server {
	t.Helper()
	if err := mariadb.Ensure(ctx, mariadb.Programs()...); err != nil {
		if os.Getuid() != 0 {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	srv, err := mariadb.Start(ctx, mariadb.Options{GeneralLog: true, SlowLog: true, Audit: true,
		Users: []mariadb.User{{Name: "ann", Password: "s3cret"}, {Name: "bob", Password: "s3cret"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	return srv
}
