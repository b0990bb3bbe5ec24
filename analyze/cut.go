package analyze

// maxFinding bounds the line of a finding, well below the 1 MiB that a broker takes
// of one message by default: a topic that refuses a finding would hold up all that
// come behind it.
const maxFinding = 512 << 10

const (
	cutSteps = 3
	// cutText and cutLanes bound what is left of texts and of a summary.
	cutText  = 1 << 10
	cutLanes = 500
)

// cut makes a finding that is too long shorter, by more from step to step: an alert
// goes without its event, which from, in boot and lane, names by its seq; a summary
// without the gaps of its lanes, which were told as they were found, then with the
// first lanes only. Its sums stay.
func (f *finding) cut(step int) {
	f.Cut, f.Event = true, nil
	if step > 0 {
		f.cutTexts()
	}
	if f.summary == nil {
		return
	}
	s := *f.summary
	switch step {
	case 0:
		s.Lanes = append([]laneSummary(nil), s.Lanes...)
		for i, l := range s.Lanes {
			short := *l.lane
			short.Gaps = nil
			s.Lanes[i].lane = &short
		}
	case 1:
		s.Lanes = s.Lanes[:min(len(s.Lanes), cutLanes)]
		s.Silent = s.Silent[:min(len(s.Silent), cutLanes)]
		s.NeverSeen = s.NeverSeen[:min(len(s.NeverSeen), cutLanes)]
	default:
		s.Lanes, s.Silent, s.NeverSeen = nil, nil, nil
	}
	f.summary = &s
}

// cutTexts shortens what a sender of events may have made long.
func (f *finding) cutTexts() {
	for _, s := range []*string{&f.Agent, &f.Boot, &f.Why, &f.Since, &f.Time} {
		*s = (*s)[:min(len(*s), cutText)]
	}
	key := map[string]string{}
	for name, v := range f.Key {
		key[name] = v[:min(len(v), cutText)]
	}
	f.Key = key
}
