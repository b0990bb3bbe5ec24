//go:build linux

package clients

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

//go:embed cli/script.sql
var cliScript string

// runCLI runs the mariadb client and reads what it printed. It does not say
// which of its statements an error belongs to but by the line of its input.
func runCLI(ctx context.Context, c Client, j Job, file string) ([]View, error) {
	script := strings.NewReplacer("{MID}", strings.Repeat("m", j.Mid), "{BIG}", strings.Repeat("B", j.Big), "{FILE}", file).Replace(cliScript)
	argv := append([]string{"--no-defaults", "--protocol=TCP", "-h", j.Host, "-P", strconv.Itoa(j.Port), "-u", Accounts[0],
		"--default-character-set=utf8mb4", "--comments", "--force", "--local-infile=1", "-v", "-v", "shop"}, append(c.args, j.Args...)...)
	if !strings.Contains(strings.Join(argv, " "), "--ssl") {
		argv = append(argv, "--skip-ssl")
	}
	cmd := exec.CommandContext(ctx, "mariadb", argv...)
	cmd.Env = append(cmd.Environ(), "MYSQL_PWD="+Password)
	cmd.Stdin = strings.NewReader(script)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	// The exit code tells of the last error, which is data.
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return nil, fmt.Errorf("run mariadb: %w", err)
	}
	views := cliViews(out.String())
	if len(views) == 0 {
		return nil, fmt.Errorf("%s: no statement ran: %s", c.Name, lastLines(said.String()))
	}
	cliErrors(views, script, said.String())
	return views, nil
}

const cliRule = "--------------\n"

var (
	cliRows     = regexp.MustCompile(`(?m)^(?:(\d+) rows? in set|Empty set)`)
	cliAffected = regexp.MustCompile(`(?m)^Query OK, (\d+) rows? affected`)
	cliThread   = regexp.MustCompile(`(?m)^CONNECTION_ID\(\)\n(\d+)$`)
)

// cliViews reads the output, in which each statement stands between two rules
// with its results behind.
func cliViews(out string) []View {
	parts := strings.Split(out, cliRule)
	var thread uint64
	if m := cliThread.FindStringSubmatch(out); m != nil {
		thread, _ = strconv.ParseUint(m[1], 10, 64)
	}
	views := []View{{Step: 1, Thread: thread, Word: "Connect", User: Accounts[0], DB: "shop"}}
	for i := 1; i+1 < len(parts); i += 2 {
		rows, affected, none := sum(cliRows, parts[i+1]), sum(cliAffected, parts[i+1]), int64(0)
		views = append(views, View{Step: 1 + (i+1)/2, Thread: thread, Word: "Query", Text: strings.TrimSuffix(parts[i], "\n"),
			Rows: &rows, Affected: &affected, Error: &none})
	}
	if len(views) == 1 {
		return nil
	}
	return views
}

func sum(re *regexp.Regexp, text string) int64 {
	total := int64(0)
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		total += n
	}
	return total
}

var cliError = regexp.MustCompile(`(?m)^ERROR (\d+) \(\w+\) at line (\d+)`)

// cliErrors gives the errors to the views of their lines.
func cliErrors(views []View, script, said string) {
	lines := strings.Split(script, "\n")
	for _, m := range cliError.FindAllStringSubmatch(said, -1) {
		code, _ := strconv.ParseInt(m[1], 10, 64)
		line, _ := strconv.Atoi(m[2])
		for i := range views {
			if line <= len(lines) && views[i].Text != "" && strings.HasPrefix(lines[line-1], views[i].Text) {
				views[i].Error, views[i].Rows, views[i].Affected = &code, nil, nil
			}
		}
	}
}
