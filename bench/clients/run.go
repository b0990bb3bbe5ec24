//go:build linux

package clients

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Job is one run of a client.
type Job struct {
	Host string // of the server, an IP address
	Port int
	Dir  string // for the CSV file of LOAD DATA LOCAL
	Sizes
	Args []string // further arguments of the program
}

// Run runs a client to its end and returns what it saw. An error of the server
// is part of that; Run fails if the program does.
func (k Kits) Run(ctx context.Context, c Client, j Job) ([]View, error) {
	file := filepath.Join(j.Dir, "load.csv")
	if err := os.WriteFile(file, []byte(LoadFile), 0o644); err != nil {
		return nil, err
	}
	if c.kit == "cli" {
		return runCLI(ctx, c, j, file)
	}
	kit := k[c.kit]
	if kit.Missing != nil {
		return nil, kit.Missing
	}
	argv := append(append([]string{}, kit.argv...), "host="+j.Host, fmt.Sprintf("port=%d", j.Port), "file="+file,
		fmt.Sprintf("mid=%d", j.Mid), fmt.Sprintf("big=%d", j.Big))
	argv = append(append(argv, c.args...), j.Args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), kit.env...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", c.Name, err, lastLines(said.String()))
	}
	return ReadViews(&out)
}

// Missing is the reason why a client cannot run, nil if it can.
func (k Kits) Missing(c Client) error { return k[c.kit].Missing }

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
