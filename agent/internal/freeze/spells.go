package freeze

import (
	"strings"
	"time"
)

// maxSpells bounds what is handed on. Beyond it the two oldest become one.
const maxSpells = 8

// Spell is a time in which an agent of the cluster could act.
type Spell struct{ From, To time.Time }

// Spells are in their order. An agent hands its own on to the next one of the cluster, with those that it was handed:
// else each restart in the middle of a drain would begin its deadline anew.
type Spells []Spell

// String writes s as ParseSpells reads it.
func (s Spells) String() string {
	var words []string
	for _, spell := range s {
		words = append(words, spell.From.UTC().Format(time.RFC3339)+"/"+spell.To.UTC().Format(time.RFC3339))
	}
	return strings.Join(words, ",")
}

// ParseSpells reads what String wrote. What cannot be read is left out: it counts as frozen.
func ParseSpells(text string) Spells {
	var spells Spells
	for word := range strings.SplitSeq(text, ",") {
		from, to, _ := strings.Cut(word, "/")
		begin, errFrom := time.Parse(time.RFC3339, from)
		end, errTo := time.Parse(time.RFC3339, to)
		if errFrom == nil && errTo == nil {
			spells = append(spells, Spell{From: begin, To: end})
		}
	}
	return spells
}

// until cuts s so that no two of them overlap and none is later than now, whatever another clock has written.
func (s Spells) until(now time.Time) Spells {
	var cut Spells
	var last time.Time
	for _, spell := range s {
		if spell.From.Before(last) {
			spell.From = last
		}
		if spell.To.After(now) {
			spell.To = now
		}
		if spell.From.Before(spell.To) {
			cut, last = append(cut, spell), spell.To
		}
	}
	return cut
}

// within is how much of the time from a to b is in s, whose parts do not overlap.
func (s Spells) within(a, b time.Time) time.Duration {
	var sum time.Duration
	for _, spell := range s {
		sum += overlap(spell.From, spell.To, a, b)
	}
	return sum
}

// remember takes in when others acted before this process did. Once it has thawed it knows better.
func (l *ledger) remember(spells Spells, now time.Time) {
	if l.thaws == 0 {
		l.others = spells.until(now.Round(0))
	}
}

// spells are those of others and of this process.
func (l *ledger) spells(now time.Time) Spells {
	spells := l.others
	for i, frozen := range l.intervals {
		end := now.Round(0)
		if i+1 < len(l.intervals) {
			end = l.intervals[i+1].from
		} else if !l.open.IsZero() {
			end = l.open
		}
		if frozen.to.Before(end) {
			spells = append(spells[:len(spells):len(spells)], Spell{From: frozen.to, To: end})
		}
	}
	return spells.joined()
}

// joined makes one of the two oldest while there are too many. It is as long as both and begins with the first: a deadline
// may come later for it and never sooner, and it comes however often an agent is restarted.
func (s Spells) joined() Spells {
	for len(s) > maxSpells {
		both := Spell{From: s[0].From, To: s[0].To.Add(s[1].To.Sub(s[1].From))}
		s = append(Spells{both}, s[2:]...)
	}
	return s
}

// Remember takes in when other agents of the cluster could act, before this one has thawed for the first time.
func (m *Monitor) Remember(spells Spells) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger.remember(spells, m.options.Clock.Now())
}

// Spells returns when agents of the cluster could act, this one included.
func (m *Monitor) Spells() Spells {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock.Now()
	m.state(now)
	return m.ledger.spells(now)
}
