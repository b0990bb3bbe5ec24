package sender

import (
	"fmt"
	"strings"

	"sqlwitness/stream"
)

// A classSet is classes of events that are kept whatever the rules say, as bits.
type classSet uint8

const (
	classDDL         classSet = 1 << iota // statements that change definitions or administer the server
	classAccount                          // statements about accounts and privileges
	classError                            // what the server answered with an error
	classLogin                            // starts and ends of sessions
	classLoginFailed                      // logins that were refused
	classFirstSeen                        // the first statement of a shape
)

// classNames are the names in the order of the bits, as `rules` shows them.
var classNames = [...]string{"@ddl", "@account", "@error", "@login", "@login_failed", "@first_seen"}

// textClasses are those that depend on the statement.
const textClasses = classDDL | classAccount | classFirstSeen

// parseClasses reads names without the '@'; nil means all.
func parseClasses(names []string) (classSet, error) {
	if names == nil {
		return 1<<len(classNames) - 1, nil
	}
	var set classSet
	for _, name := range names {
		k, err := oneOf("always", "@"+strings.TrimPrefix(name, "@"), "", classNames[:])
		if err != nil {
			return 0, fmt.Errorf("%w", err)
		}
		set |= 1 << k
	}
	return set, nil
}

// eventClasses are the classes of e that do not depend on its text.
func eventClasses(e *stream.Event) classSet {
	switch e.Kind {
	case stream.KindSessionStart, stream.KindSessionEnd:
		return classLogin
	case stream.KindLoginFailed:
		return classLoginFailed
	}
	var set classSet
	if e.Status == stream.StatusError {
		set = classError
	}
	switch e.Command {
	case stream.ComCreateDB, stream.ComDropDB, stream.ComRefresh, stream.ComShutdown, stream.ComProcessKill, stream.ComClone:
		set |= classDDL
	case stream.ComChangeUser:
		set |= classLogin
	}
	return set
}

// textClassesOf are the classes of the statement at hand.
func (l *Lane) textClassesOf() classSet {
	f := &l.facts
	if !f.lexed {
		return 0
	}
	return f.firstSeen | l.masker.best.classes
}

// classDoubt tells whether the statement at hand may be one of classDDL or classAccount
// behind what was read of it.
func (l *Lane) classDoubt() bool { return l.facts.lexed && l.masker.best.open }

// classesOf are the classes that a text of these statements has.
func classesOf(commands []sqlCommand) (set classSet) {
	for _, c := range commands {
		switch c.rank() {
		case rankDDL:
			set |= classDDL
		case rankAccount:
			set |= classAccount
		}
	}
	return set
}
