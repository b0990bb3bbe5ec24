package probe

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// privateNetns is set in the environment of the test binary that runs in a
// network namespace of its own.
const privateNetns = "SQLWITNESS_PROBE_TEST_NETNS"

// TestMain runs everything in a fresh network namespace if it may make one:
// the tests load loopback and change devices.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(privateNetns) != "" {
		os.Exit(m.Run())
	}
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd := exec.Command(exe, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), privateNetns+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	if errors.Is(err, syscall.EPERM) {
		os.Exit(m.Run()) // root of a container: the live tests skip
	}
	if err == nil {
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// live skips tests that need a network namespace.
func live(t *testing.T) {
	t.Helper()
	if os.Getenv(privateNetns) == "" {
		t.Skip("needs root and a network namespace of its own")
	}
	ip(t, "link", "set", "lo", "up")
}

// ip runs ip(8) of iproute2.
func ip(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
}

var vethCount atomic.Int32

// A wire is a pair of veth devices: what is sent at one end arrives at the
// other, in order.
type wire struct {
	from, to           string
	fromIndex, toIndex int
	fd                 int // sends frames at from
	frame              []byte
}

func newWire(t testing.TB) *wire {
	t.Helper()
	n := vethCount.Add(1)
	w := &wire{from: fmt.Sprintf("va%d", n), to: fmt.Sprintf("vb%d", n)}
	ip(t, "link", "add", w.from, "mtu", "65535", "type", "veth", "peer", "name", w.to, "mtu", "65535")
	t.Cleanup(func() { ip(t, "link", "del", w.from) })
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	w.fd = fd
	return rewire(t, w)
}

// rewire waits until the devices of w carry frames: both ends must have seen
// their carrier.
func rewire(t testing.TB, w *wire) *wire {
	t.Helper()
	ip(t, "link", "set", w.from, "up")
	ip(t, "link", "set", w.to, "up")
	w.fromIndex, w.toIndex = ifindex(t, w.from), ifindex(t, w.to)
	if err := unix.Bind(w.fd, &unix.SockaddrLinklayer{Ifindex: w.fromIndex}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a carrier", func() bool {
		d, err := net.InterfaceByName(w.to)
		return err == nil && d.Flags&net.FlagRunning != 0
	})
	return w
}

// eventually waits for what the kernel does in its own time.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

func ifindex(t testing.TB, name string) int {
	t.Helper()
	d, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return d.Index
}

// send sends an IP packet behind the tags, EtherType and TCI each.
func (w *wire) send(t testing.TB, pkt []byte, tags ...uint16) {
	typ := byte(0x08)
	low := byte(0x00)
	if len(pkt) > 0 && pkt[0]>>4 == 6 {
		typ, low = 0x86, 0xdd
	}
	w.frame = append(w.frame[:0], 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2)
	for _, v := range tags {
		w.frame = append(w.frame, byte(v>>8), byte(v))
	}
	w.frame = append(append(w.frame, typ, low), pkt...)
	if _, err := unix.Write(w.fd, w.frame); err != nil {
		t.Fatalf("send %d bytes: %v", len(w.frame), err)
	}
}

// openGroup opens a group that is closed with the test.
func openGroup(t testing.TB, c Config) *Group {
	t.Helper()
	g, err := OpenGroup(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, r := range g.Rings() {
			r.Release()
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A capture is what a ring handed out until it was stopped. Payloads are copied.
type capture struct {
	segs    []Segment
	batches int
	err     error
}

// collect reads r in a goroutine of its own until it ends.
func collect(r *Ring) <-chan capture {
	done := make(chan capture, 1)
	go func() {
		var c capture
		for {
			b, err := r.Next()
			if err != nil {
				c.err = err
				done <- c
				return
			}
			c.batches++
			for _, s := range b.Segments {
				s.Payload = append([]byte(nil), s.Payload...)
				c.segs = append(c.segs, s)
			}
			r.Release()
		}
	}()
	return done
}
