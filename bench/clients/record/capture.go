//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// A recording has fewer than maxBytes, so that all of them stay small, and more
// than minBytes, which a single login has.
const minBytes, maxBytes = 500, 150_000

// recordScene plays a scene under tcpdump and writes the compressed recording
// and logs. It returns the size of the recording.
func (s *stage) recordScene(scene scene, path string) (int, error) {
	raw := filepath.Join(s.dir, "scene.pcap")
	before, err := s.logs.sizes()
	if err != nil {
		return 0, err
	}
	stop, err := s.startDump(raw)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(scene.play(), stop()); err != nil {
		return 0, err
	}
	packets, err := os.ReadFile(raw)
	if err != nil {
		return 0, err
	}
	var packed bytes.Buffer
	if err := pack(&packed, "", packets); err != nil {
		return 0, err
	}
	if n := packed.Len(); n < minBytes || n > maxBytes {
		return 0, fmt.Errorf("%d bytes compressed, not in [%d, %d]", n, minBytes, maxBytes)
	}
	if err := s.logs.write(path+".logs.gz", before); err != nil {
		return 0, err
	}
	return packed.Len(), os.WriteFile(path+".pcap.gz", packed.Bytes(), 0o644)
}

// pack appends a gzip member.
func pack(to *bytes.Buffer, name string, data []byte) error {
	w, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	w.Name = name
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

// logs are the paths of the server's general, slow and audit logs.
type logs [3]string

func (l logs) sizes() (sizes [3]int64, err error) {
	for i, path := range l {
		info, err := os.Stat(path)
		if err != nil {
			return sizes, err
		}
		sizes[i] = info.Size()
	}
	return sizes, nil
}

// write puts what the logs have gained into one file, a gzip member for each.
func (l logs) write(path string, from [3]int64) error {
	var packed bytes.Buffer
	for i, name := range []string{"general", "slow", "audit"} {
		text, err := os.ReadFile(l[i])
		if err != nil {
			return err
		}
		if err := pack(&packed, name, text[from[i]:]); err != nil {
			return err
		}
	}
	return os.WriteFile(path, packed.Bytes(), 0o644)
}

var dropped = regexp.MustCompile(`(\d+) packets? dropped by kernel`)

// startDump begins to record the server's port and returns what ends that.
func (s *stage) startDump(path string) (func() error, error) {
	cmd := exec.CommandContext(s.ctx, "tcpdump", "-Z", "root", "-i", "lo", "-n", "-s", "0", "-B", "65536", "-U", "--immediate-mode", "-w", path,
		fmt.Sprintf("tcp port %d", s.port))
	said, err := os.Create(filepath.Join(s.dir, "tcpdump.log"))
	if err != nil {
		return nil, err
	}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	listening := func() bool {
		log, _ := os.ReadFile(said.Name())
		return bytes.Contains(log, []byte("listening on"))
	}
	for began := time.Now(); !listening(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			cmd.Process.Kill()
			return nil, errors.New("tcpdump does not start")
		}
	}
	return func() error {
		defer said.Close()
		// The end of the last connection may still be on its way.
		time.Sleep(400 * time.Millisecond)
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		log, _ := os.ReadFile(said.Name())
		if m := dropped.FindSubmatch(log); m == nil || string(m[1]) != "0" {
			return fmt.Errorf("the recording is not whole: %s", log)
		}
		return nil
	}, nil
}
