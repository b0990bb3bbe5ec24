package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"sqlwitness/sender"
)

// selectConfig says which events are kept.
type selectConfig struct {
	Sample   float64      `yaml:"sample" doc:"share that is kept of the events that no rule and no class decides on; 0 to 1"`
	SampleBy string       `yaml:"sample_by" doc:"event or session: whole sessions are kept or not"`
	Always   []string     `yaml:"always" doc:"classes that are kept whatever the rules say: ddl, account, error, login, login_failed, first_seen; all: every one of them"`
	Rules    []ruleConfig `yaml:"rules" doc:"rules such as {name: big_read, when: 'rows > 100000', action: alert, severity: high}"`
}

type ruleConfig struct {
	Name        string  `yaml:"name"`
	When        string  `yaml:"when"`
	Action      string  `yaml:"action"`
	Probability float64 `yaml:"probability,omitempty"`
	By          string  `yaml:"by,omitempty"`
	Severity    string  `yaml:"severity,omitempty"`
	RateLimit   float64 `yaml:"rate_limit,omitempty"`
}

// compile makes the rules. A mistake in one names it and the place.
func (s *selectConfig) compile() (*sender.Rules, error) {
	c := sender.SelectionConfig{Sample: &s.Sample, SampleBy: s.SampleBy}
	if len(s.Always) != 1 || s.Always[0] != "all" {
		c.Always = append([]string{}, s.Always...)
	}
	for _, r := range s.Rules {
		c.Rules = append(c.Rules, sender.RuleConfig(r))
	}
	rules, err := c.Compile()
	if err != nil {
		return nil, usageError{fmt.Errorf("select: %w", err)}
	}
	return rules, nil
}

// printCosts says what each rule costs.
func printCosts(w io.Writer, rules *sender.Rules) {
	costs := rules.Costs()
	if len(costs) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "rule\tevaluated\tcost")
	for _, c := range costs {
		fmt.Fprintf(t, "%s\t%s\t%.0f ns\n", c.Name, c.Stage, c.Nanoseconds)
	}
	t.Flush()
}

// changeEvent is what agent_change says.
type changeEvent struct {
	What           string `json:"what"`
	ConfigHash     string `json:"config_hash"`
	PreviousConfig string `json:"previous_config_hash"`
	RulesHash      string `json:"rules_hash"`
	PreviousRules  string `json:"previous_rules_hash"`
}

// hangups are the SIGHUPs from now on. None ends the process any more, neither while
// nobody takes them yet nor when nobody does any more: a run that delivers the rest
// would lose it.
func hangups() <-chan os.Signal {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}

// reload reads the configuration file anew at SIGHUP and takes its rules over, at
// once and for all lanes. What is wrong keeps the rules in force.
func (l *live) reload(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.hangups:
		}
		if err := l.reloadRules(); err != nil {
			l.log.Warn("the configuration was not taken over, the rules stay", "err", err)
		}
	}
}

// reloadRules says what has changed: the rules, which are taken over, and what is not
// before the next start. Rules that are the same go on, with what they have counted.
func (l *live) reloadRules() error {
	c := defaultConfig()
	if l.config.file == "" {
		return fmt.Errorf("there is no configuration file")
	}
	if err := c.load(l.config.file); err != nil {
		return err
	}
	later := slices.DeleteFunc(c.changed(l.config.read), func(key string) bool { return key == "select" })
	if hash(&c.Select) == hash(&l.config.Select) {
		if len(later) == 0 {
			l.log.Info("nothing has changed, the rules stay", "file", l.config.file)
		} else {
			l.log.Info("the rules stay, they have not changed", "file", l.config.file, "for the next start", strings.Join(later, ","))
		}
		return nil
	}
	rules, err := c.Select.compile()
	if err != nil {
		return err
	}
	e := changeEvent{What: "rules", PreviousConfig: l.config.hash(), PreviousRules: hash(&l.config.Select)}
	l.sender.SetRules(rules)
	l.config.Select = c.Select
	e.ConfigHash, e.RulesHash = l.config.hash(), hash(&l.config.Select)
	said := []any{"file", l.config.file, "rules", len(c.Select.Rules)}
	if len(later) > 0 {
		said = append(said, "for the next start", strings.Join(later, ","))
	}
	l.log.Info("the rules were taken over", said...)
	return l.announce(sender.TypeAgentChange, time.Now(), &e, "the rules have changed")
}
