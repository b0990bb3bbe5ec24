package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sqlwitness/bench/meter"
)

// A group is a running tool: a pipeline of programs, and the children of them.
type group struct {
	dir  string
	cmds []*exec.Cmd
	errs []string // files with what each said on standard error
	done []chan struct{}
}

// outputFile is the standard output of the last program of a pipeline.
const outputFile = "out"

// startGroup starts a pipeline in dir, which also holds the temporary files.
func startGroup(dir string, pipeline [][]string) (*group, error) {
	g := &group{dir: dir}
	out, err := os.Create(filepath.Join(dir, outputFile))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	var upstream *os.File
	for i, argv := range pipeline {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "LC_ALL=C.UTF-8")
		// A group of its own keeps the terminal's SIGINT away from it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if upstream != nil {
			cmd.Stdin = upstream
		}
		cmd.Stdout = out
		var downstream *os.File
		if i < len(pipeline)-1 {
			r, w, err := os.Pipe()
			if err != nil {
				return nil, errors.Join(err, g.stop(0))
			}
			cmd.Stdout, downstream = w, r
			defer w.Close()
		}
		if err := g.startOne(cmd); err != nil {
			return nil, errors.Join(err, g.stop(0))
		}
		if upstream != nil {
			upstream.Close()
		}
		upstream = downstream
	}
	return g, nil
}

func (g *group) startOne(cmd *exec.Cmd) error {
	name := filepath.Join(g.dir, fmt.Sprint("stderr", len(g.cmds)))
	said, err := os.Create(name)
	if err != nil {
		return err
	}
	defer said.Close()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	g.cmds, g.errs, g.done = append(g.cmds, cmd), append(g.errs, name), append(g.done, done)
	go func() {
		cmd.Wait()
		close(done)
	}()
	return nil
}

// stderr is what all programs said.
func (g *group) stderr() string {
	var all []byte
	for _, name := range g.errs {
		text, _ := os.ReadFile(name)
		all = append(all, text...)
	}
	return string(all)
}

// ended tells whether one of the programs has ended.
func (g *group) ended() bool {
	for _, d := range g.done {
		select {
		case <-d:
			return true
		default:
		}
	}
	return false
}

// waitCapturing waits until a process of the group holds a packet socket, and as
// long again as a filter needs to be set on it. It works for every tool, whatever
// it says at its start.
func (g *group) waitCapturing(ctx context.Context) error {
	const patience, settle = time.Minute, 500 * time.Millisecond
	for until := time.Now().Add(patience); time.Now().Before(until); {
		if g.ended() {
			return fmt.Errorf("it ended at its start: %s", g.stderr())
		}
		if holdsPacketSocket(g.pids()) {
			return sleep(ctx, settle)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("it does not capture after %v: %s", patience, g.stderr())
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// holdsPacketSocket looks for the sockets of packet(7), whose inodes
// /proc/net/packet lists, among the files of the processes.
func holdsPacketSocket(pids []int) bool {
	list, err := os.ReadFile("/proc/net/packet")
	if err != nil {
		return false
	}
	sockets := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) > 8 {
			sockets["socket:["+f[8]+"]"] = true
		}
	}
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, f := range files {
			if target, _ := os.Readlink(f); sockets[target] {
				return true
			}
		}
	}
	return false
}

// pids are the programs and all their living descendants.
func (g *group) pids() []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		// The parent is the second field behind the name, which may hold anything.
		if f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]); len(f) > 1 {
			parent, _ := strconv.Atoi(string(f[1]))
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for _, cmd := range g.cmds {
		all = append(all, cmd.Process.Pid)
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// cpu is the processor time of all threads of the group that are alive, in user
// and kernel mode.
func (g *group) cpu() time.Duration {
	var total time.Duration
	for _, pid := range g.pids() {
		total += meter.CPU(pid)
	}
	return total
}

// busy tells whether a thread of the group runs, waits for a processor, or for a
// disk (the states R and D of proc_pid_stat(5)).
func (g *group) busy() bool {
	for _, pid := range g.pids() {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, name := range tasks {
			text, _ := os.ReadFile(name)
			if f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]); len(f) > 0 && (f[0][0] == 'R' || f[0][0] == 'D') {
				return true
			}
		}
	}
	return false
}

// peakMemory is the sum of the most that each process had resident, in bytes. The
// ring that a capture shares with the kernel is part of it.
func (g *group) peakMemory() int64 {
	var total int64
	for _, pid := range g.pids() {
		if _, peak, err := meter.Memory(pid); err == nil { // else it has just ended
			total += peak
		}
	}
	return total
}

// stop interrupts the first program, whose end ends the others; after patience the
// others too; and after that it kills what is left, each by its process id.
func (g *group) stop(patience time.Duration) error {
	if len(g.cmds) == 0 {
		return nil
	}
	g.cmds[0].Process.Signal(syscall.SIGINT)
	if g.wait(patience) {
		return nil
	}
	for _, cmd := range g.cmds[1:] {
		cmd.Process.Signal(syscall.SIGINT)
	}
	if g.wait(patience / 2) {
		return errBehind
	}
	for _, pid := range g.pids() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	g.wait(time.Minute)
	return errBehind
}

// errBehind is what stop returns of a tool that had to be told twice.
var errBehind = errors.New("it was still busy and was ended")

func (g *group) wait(d time.Duration) bool {
	timeout := time.After(d)
	for _, done := range g.done {
		select {
		case <-done:
		case <-timeout:
			return false
		}
	}
	return true
}
