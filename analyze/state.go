package analyze

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// forgetLane is how long a lane that is not the newest of its agent is kept.
const forgetLane = 24 * time.Hour

// A state is what the next run must know: how far it came, the lanes, and what
// rules have counted. It is written before offsets are committed, so it is never
// behind them. It is kept in one file, or, for members of a group that share a
// directory, in one file for each partition, which goes where the partition goes.
type state struct {
	Offsets map[int]int64                 `json:"offsets"`         // next, by partition
	Lanes   map[string]*lane              `json:"lanes"`           // by agent, boot, lane, with zero bytes between
	Counted map[string]map[string]*window `json:"counted"`         // by rule and key
	Sizes   []int                         `json:"sizes,omitempty"` // numbers of partitions that the topic is known to have had

	path    string // of the file or directory; empty: kept nowhere
	dir     bool
	byID    map[string]*windows
	sweep   int64        // seconds; when lanes were forgotten last
	touched map[int]bool // partitions of lanes that an event of another has changed, since the last save
}

// loadState reads the state file; without a path, or a file, it is empty. Of a
// directory it reads nothing yet, see adopt.
func loadState(path string) (*state, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		s := newState()
		s.path, s.dir = path, true
		return s, nil
	}
	s, err := readState(path)
	if err == nil {
		s.path = path
	}
	return s, err
}

func newState() *state {
	return &state{Offsets: map[int]int64{}, Lanes: map[string]*lane{}, byID: map[string]*windows{}, touched: map[int]bool{}}
}

func readState(path string) (*state, error) {
	s := newState()
	if path == "" {
		return s, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("state %s: %w", path, err)
	}
	if s.Offsets == nil {
		s.Offsets = map[int]int64{}
	}
	if s.Lanes == nil {
		s.Lanes = map[string]*lane{}
	}
	for name, byKey := range s.Counted {
		s.byID[name] = &windows{byKey: byKey}
	}
	return s, nil
}

// size notes how many partitions the topic has. If it had more it was made anew.
func (s *state) size(partitions int) {
	s.Sizes = slices.DeleteFunc(s.Sizes, func(n int) bool { return n >= partitions || n < 1 })
	s.Sizes = append(s.Sizes, partitions)
}

// sizes adds those smaller ones that another member knows of.
func (s *state) sizes(other []int) {
	if len(s.Sizes) == 0 {
		return // the inventory is not divided
	}
	now := s.Sizes[len(s.Sizes)-1]
	s.Sizes = append(s.Sizes, other...)
	slices.Sort(s.Sizes)
	s.Sizes = slices.Compact(s.Sizes)
	s.size(now)
}

// touch notes that what is known of a partition has changed without an event of it.
func (s *state) touch(partition int) { s.touched[partition] = true }

// save keeps what is known of some partitions, and of those that were touched: these
// first, for an event must not be passed over before its lane has it.
func (s *state) save(partitions []int) error {
	if s.dir {
		for _, p := range append(slices.Collect(maps.Keys(s.touched)), partitions...) {
			if err := s.only(p).write(s.file(p)); err != nil {
				return err
			}
		}
	} else if s.path != "" {
		if err := s.write(s.path); err != nil {
			return err
		}
	}
	clear(s.touched)
	return nil
}

func (s *state) file(partition int) string {
	return filepath.Join(s.path, "partition-"+strconv.Itoa(partition)+".json")
}

// write replaces a file. A crash leaves the old or the new one.
func (s *state) write(path string) error {
	s.Counted = map[string]map[string]*window{}
	for name, ws := range s.byID {
		s.Counted[name] = ws.byKey
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	part, err := os.CreateTemp(filepath.Dir(path), ".state-")
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	defer os.Remove(part.Name())
	_, err = part.Write(text)
	if err == nil {
		err = part.Sync()
	}
	if cerr := part.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

func laneKey(agent, boot string, n int) string {
	return agent + "\x00" + boot + "\x00" + strconv.Itoa(n)
}

func (s *state) lane(agent, boot string, n int) *lane {
	key := laneKey(agent, boot, n)
	l := s.Lanes[key]
	if l == nil {
		l = &lane{}
		s.Lanes[key] = l
	}
	return l
}

func (s *state) windows(rule string) *windows {
	ws := s.byID[rule]
	if ws == nil {
		ws = &windows{byKey: map[string]*window{}}
		s.byID[rule] = ws
	}
	return ws
}

// tidy forgets lanes of earlier runs of an agent that have been silent for a day and of
// which nothing is to be told, once an hour.
func (s *state) tidy(now time.Time) {
	if now.Unix()-s.sweep < 3600 {
		return
	}
	s.sweep = now.Unix()
	newest := map[string]string{}
	for key := range s.Lanes {
		agent, rest, _ := strings.Cut(key, "\x00")
		boot, _, _ := strings.Cut(rest, "\x00")
		if olderBoot(newest[agent], boot) {
			newest[agent] = boot
		}
	}
	for key, l := range s.Lanes {
		agent, rest, _ := strings.Cut(key, "\x00")
		boot, _, _ := strings.Cut(rest, "\x00")
		if boot != newest[agent] && !l.holds() && now.Unix()-l.SeenUnix > int64(forgetLane/time.Second) {
			delete(s.Lanes, key)
		}
	}
}
