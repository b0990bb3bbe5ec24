package analyze

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// forgetLane is how long a lane that is not the newest of its agent is kept.
const forgetLane = 24 * time.Hour

// A state is what the next run must know: how far it came, the lanes, and what
// rules have counted. It is written before offsets are committed, so it is never
// behind them.
type state struct {
	Offsets map[int]int64                 `json:"offsets"` // next, by partition
	Lanes   map[string]*lane              `json:"lanes"`   // by agent, boot, lane, with zero bytes between
	Counted map[string]map[string]*window `json:"counted"` // by rule and key

	path  string
	byID  map[string]*windows
	sweep int64 // seconds; when lanes were forgotten last
}

// loadState reads the state file; without a path, or a file, it is empty.
func loadState(path string) (*state, error) {
	s := &state{path: path, byID: map[string]*windows{}}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("state: %w", err)
		}
		if err == nil {
			if err := json.Unmarshal(text, s); err != nil {
				return nil, fmt.Errorf("state %s: %w", path, err)
			}
		}
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

// save replaces the file. A crash leaves the old or the new one.
func (s *state) save() error {
	if s.path == "" {
		return nil
	}
	s.Counted = map[string]map[string]*window{}
	for name, ws := range s.byID {
		s.Counted[name] = ws.byKey
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	part, err := os.CreateTemp(filepath.Dir(s.path), ".state-")
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
		err = os.Rename(part.Name(), s.path)
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

// tidy forgets lanes of earlier runs of an agent that have been silent for a day,
// once an hour.
func (s *state) tidy(now time.Time) {
	if now.Unix()-s.sweep < 3600 {
		return
	}
	s.sweep = now.Unix()
	newest := map[string]string{}
	for key := range s.Lanes {
		agent, rest, _ := strings.Cut(key, "\x00")
		boot, _, _ := strings.Cut(rest, "\x00")
		newest[agent] = max(newest[agent], boot)
	}
	for key, l := range s.Lanes {
		agent, rest, _ := strings.Cut(key, "\x00")
		boot, _, _ := strings.Cut(rest, "\x00")
		if boot != newest[agent] && now.Unix()-l.SeenUnix > int64(forgetLane/time.Second) {
			delete(s.Lanes, key)
		}
	}
}
