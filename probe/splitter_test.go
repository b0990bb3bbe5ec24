package probe

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A numbered source hands out batches whose payloads all are one buffer, which
// it overwrites as soon as a batch is released.
type numbered struct {
	batches int
	err     error
	batch   Batch
	buf     []byte
	next    byte
	out     atomic.Bool
}

// Next implements Source.
func (s *numbered) Next() (*Batch, error) {
	if s.batches == 0 {
		return nil, s.err
	}
	s.batches--
	s.out.Store(true)
	s.next++
	s.batch.Segments = s.batch.Segments[:0]
	s.batch.NowNs++
	for i := range s.buf {
		s.buf[i] = s.next
	}
	for i := range 97 {
		seg := Segment{Flow: Flow{Client: netip.AddrPortFrom(client4.Addr(), uint16(2*i)), Server: server4}, Seq: uint32(s.batch.NowNs), Payload: s.buf}
		seg.Hash = FlowHash(seg.Flow)
		s.batch.Segments = append(s.batch.Segments, seg)
	}
	return &s.batch, nil
}

// Release implements Source.
func (s *numbered) Release() {
	s.out.Store(false)
	for i := range s.buf {
		s.buf[i] = 0xff
	}
}

func TestSplitter(t *testing.T) {
	const shards, batches = 3, 300
	end := errors.New("the end")
	src := &numbered{batches: batches, err: end, buf: make([]byte, 64)}
	s := NewSplitter(src, shards)
	var wg sync.WaitGroup
	var total atomic.Int64
	for i, p := range s.Parts() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rounds := 0
			for {
				b, err := p.Next()
				if err != nil {
					if err != end || rounds != batches {
						t.Errorf("part %d: %d rounds, %v", i, rounds, err)
					}
					return
				}
				rounds++
				if b.NowNs != int64(rounds) || !src.out.Load() {
					t.Errorf("part %d: round %d has clock %d", i, rounds, b.NowNs)
				}
				if i == 1 && rounds%50 == 0 {
					time.Sleep(time.Millisecond) // the others wait, nothing is lost
				}
				for _, seg := range b.Segments {
					total.Add(1)
					if seg.Hash%shards != uint32(i) || seg.Seq != uint32(rounds) || seg.Payload[0] != byte(rounds) || seg.Payload[63] != byte(rounds) {
						t.Errorf("part %d, round %d: %+v", i, rounds, seg)
					}
				}
				if rounds%2 == 0 {
					p.Release()
					p.Release()
				} // else the next Next does it
			}
		}()
	}
	if err := s.Run(); err != end {
		t.Errorf("Run: %v", err)
	}
	wg.Wait()
	if total.Load() != batches*97 {
		t.Errorf("%d segments, want %d", total.Load(), batches*97)
	}
}

// A shard that gives up does not hold back the rest, whenever it does.
func TestSplitterClosedParts(t *testing.T) {
	for _, held := range []bool{true, false} {
		src := &numbered{batches: 50, err: io.EOF, buf: make([]byte, 8)}
		s := NewSplitter(src, 2)
		quitter, other := s.Parts()[0], s.Parts()[1]
		done := make(chan error, 1)
		go func() { done <- s.Run() }()
		rounds := 0
		for {
			_, err := other.Next()
			if err != nil {
				break
			}
			if rounds++; rounds < 10 {
				quitter.Next()
				quitter.Release()
				continue
			}
			if rounds == 10 {
				if held {
					quitter.Next()
				}
				quitter.Close()
				quitter.Close()
			}
		}
		if err := <-done; err != nil || rounds != 50 {
			t.Errorf("held %v: %d rounds, %v", held, rounds, err)
		}
		if _, err := quitter.Next(); err != io.EOF {
			t.Errorf("Next of a closed part: %v", err)
		}
	}
}

// Without readers Run ends.
func TestSplitterAllClosed(t *testing.T) {
	src := &numbered{batches: 1 << 30, err: io.EOF, buf: make([]byte, 8)}
	s := NewSplitter(src, 2)
	done := make(chan error, 1)
	go func() { done <- s.Run() }()
	for _, p := range s.Parts() {
		p.Next()
	}
	for _, p := range s.Parts() {
		p.Close()
	}
	select {
	case err := <-done:
		if err != nil || src.out.Load() {
			t.Errorf("%v, batch out %v", err, src.out.Load())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run goes on")
	}
}

// The stages of a file with several shards together.
func TestSplitFile(t *testing.T) {
	var frames []testFrame
	for i := range 5000 {
		p := testPacket{src: netip.AddrPortFrom(client4.Addr(), uint16(40000+i%64)), dst: server4, seq: uint32(i), payload: []byte("12345")}
		frames = append(frames, testFrame{after: time.Duration(i) * time.Microsecond, data: p.bytes()})
	}
	s := NewSplitter(openBytes(t, writePcap(t, linkRaw, false, frames...), watch3306), 4)
	go s.Run()
	var wg sync.WaitGroup
	var total atomic.Int64
	for _, p := range s.Parts() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			segs, err := readAll(p)
			total.Add(int64(len(segs)))
			if err != io.EOF || len(segs) == 0 {
				t.Errorf("%d segments, %v", len(segs), err)
			}
		}()
	}
	wg.Wait()
	if total.Load() != 5000 {
		t.Errorf("%d segments", total.Load())
	}
}
