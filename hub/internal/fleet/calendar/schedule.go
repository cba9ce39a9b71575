// Package calendar computes when maintenance windows open and what exclusions cover, by the wall clock of a time zone. It is pure.
package calendar

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// ErrFields is returned for text that does not have the five fields of crontab.
var ErrFields = errors.New("it does not have five fields")

// Schedule has the wall-clock minutes at which a window opens.
//
// Each of them opens it once: where the clocks go forward over it, it opens when they have done so, and where they go back over
// it, it opens the first time. A schedule of every hour goes by the hours that pass: it leaves out the hour that does not exist,
// and opens again in the one that exists twice.
type Schedule struct {
	minutes, hours, days, months uint64
	weekdays                     weekdays
	zone                         *time.Location
}

const (
	// star is the bit by which the parser marks a field that is * or ?.
	star = 1 << 63
	// allHours are the bits of the hours of a day.
	allHours = 1<<24 - 1
	// farthest is how many days Next looks ahead: the 29th of February is up to eight years away, and the same weekday of it up to 40.
	farthest = 41 * 366
)

// otherFields are those of crontab but for the day of week.
var otherFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month)

// Parse reads the five fields of crontab: minute, hour, day of month, month and day of week. If neither the day of month nor the
// day of week is *, either of them is enough, as in crontab.
func Parse(text string, zone *time.Location) (*Schedule, error) {
	fields := splitFields(text)
	if len(fields) != 5 {
		return nil, ErrFields
	}
	parsed, err := otherFields.Parse(fields[0] + " " + fields[1] + " " + fields[2] + " " + fields[3])
	if err != nil {
		return nil, fmt.Errorf("reading minute, hour, day of month and month: %w", err)
	}
	spec, is := parsed.(*cron.SpecSchedule)
	if !is {
		return nil, ErrFields
	}
	s := &Schedule{minutes: spec.Minute, hours: spec.Hour, days: spec.Dom, months: spec.Month, zone: zone}
	if s.weekdays, err = parseWeekdays(fields[4]); err != nil {
		return nil, err
	}
	return s, nil
}

// Next is the first opening after a time; zero if there is none.
func (s *Schedule) Next(after time.Time) time.Time {
	day := dateOf(after.In(s.zone))
	for range farthest {
		first := s.pickOpening(day, func(at, best time.Time) bool { return at.After(after) && (best.IsZero() || at.Before(best)) })
		if !first.IsZero() {
			return first
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// Last is the last opening up to a time, and not before another one; zero if there is none.
func (s *Schedule) Last(upTo, notBefore time.Time) time.Time {
	oldest := dateOf(notBefore.In(s.zone)).AddDate(0, 0, -1)
	for day := dateOf(upTo.In(s.zone)); !day.Before(oldest); day = day.AddDate(0, 0, -1) {
		last := s.pickOpening(day, func(at, best time.Time) bool { return !at.After(upTo) && at.After(best) })
		if last.Before(notBefore) {
			last = time.Time{}
		}
		if !last.IsZero() {
			return last
		}
	}
	return time.Time{}
}

// pickOpening returns the best opening of a local date and of those beside it: an hour that exists twice may be of two dates.
func (s *Schedule) pickOpening(date time.Time, better func(at, best time.Time) bool) time.Time {
	var best time.Time
	for _, day := range []time.Time{date.AddDate(0, 0, -1), date, date.AddDate(0, 0, 1)} {
		if !s.includesDate(day) {
			continue
		}
		clock := newClock(s.zone, day)
		for minute := range 24 * 60 {
			if s.hours&(1<<(minute/60)) == 0 || s.minutes&(1<<(minute%60)) == 0 {
				continue
			}
			for _, at := range s.openingsAt(clock, day.Add(time.Duration(minute)*time.Minute)) {
				if better(at, best) {
					best = at
				}
			}
		}
	}
	return best
}

// openingsAt are the moments at which a wall-clock time of the schedule opens the window.
func (s *Schedule) openingsAt(clock clock, wall time.Time) []time.Time {
	at := clock.momentsAt(wall)
	switch {
	case s.hours&allHours == allHours:
		return at
	case len(at) == 0:
		return []time.Time{clock.afterGap(wall)}
	}
	return at[:1]
}

// includesDate reports whether a date is one of the schedule's.
func (s *Schedule) includesDate(date time.Time) bool {
	if s.months&(1<<int(date.Month())) == 0 {
		return false
	}
	ofMonth, ofWeek := s.days&(1<<date.Day()) != 0, s.weekdays.includesDate(date)
	if s.days&star != 0 || s.weekdays.every {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}
