package calendar

import (
	"archive/zip"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// zones are all of the time zone database that came with Go.
func zones(t testing.TB) []*time.Location {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var all []*time.Location
	for _, file := range archive.File {
		if zone, err := time.LoadLocation(file.Name); err == nil && !strings.HasSuffix(file.Name, "/") {
			all = append(all, zone)
		}
	}
	if len(all) < 400 {
		t.Fatalf("the database has %d zones only", len(all))
	}
	return all
}

// changes are the moments of three years at which a zone's clocks change.
func changes(zone *time.Location) []time.Time {
	var all []time.Time
	until := time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).In(zone); ; {
		_, end := at.ZoneBounds()
		if end.IsZero() || end.After(until) {
			return all
		}
		all, at = append(all, end), end.In(zone)
	}
}

// openingsByTheMinute goes through the minutes of a time one by one, as a person would who looks at a clock on the wall: a time of the
// schedule has come when the clock shows it, or has gone over it, for the first time.
func openingsByTheMinute(zone *time.Location, from, to time.Time, named func(wall time.Time) bool, everyHour bool) []time.Time {
	var all []time.Time
	wallOf := func(at time.Time) time.Time {
		local := at.In(zone)
		return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
	}
	farthest := wallOf(from.Add(-time.Minute))
	for before := from.Add(-49 * time.Hour); before.Before(from); before = before.Add(time.Minute) {
		if wall := wallOf(before); wall.After(farthest) {
			farthest = wall
		}
	}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		wall := wallOf(at)
		opens := everyHour && named(wall)
		for !everyHour && farthest.Before(wall) {
			farthest = farthest.Add(time.Minute)
			opens = opens || named(farthest)
		}
		if opens {
			all = append(all, at)
		}
	}
	return all
}

// spec is a schedule as lists of numbers, which the oracle reads without the parser.
type spec struct{ minutes, hours []int }

func (s spec) text() string {
	return fmt.Sprintf("%s %s * * *", list(s.minutes), list(s.hours))
}

func (s spec) named(wall time.Time) bool {
	return slices.Contains(s.minutes, wall.Minute()) && slices.Contains(s.hours, wall.Hour())
}

func list(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}

func hoursOfDay() []int {
	var all []int
	for hour := range 24 {
		all = append(all, hour)
	}
	return all
}

// compare holds the openings and the state of a window against the oracle.
func compare(t rapid.TB, zone *time.Location, from, to time.Time, s spec, duration time.Duration) {
	schedule, err := Parse(s.text(), zone)
	if err != nil {
		t.Fatal(err)
	}
	wanted := openingsByTheMinute(zone, from, to, s.named, len(s.hours) == 24)
	var got []time.Time
	for at := schedule.Next(from.Add(-1)); at.Before(to) && !at.IsZero(); at = schedule.Next(at) {
		got = append(got, at)
	}
	if !slices.EqualFunc(got, wanted, time.Time.Equal) {
		t.Fatalf("%s in %s from %s: it opens at\n%v, not at\n%v", s.text(), zone, from, got, wanted)
	}
	w := Window{Schedule: schedule, Duration: duration}
	for at := from.Add(duration); at.Before(to); at = at.Add(23 * time.Minute) {
		open := slices.ContainsFunc(wanted, func(opening time.Time) bool { return !opening.After(at) && at.Sub(opening) < duration })
		if w.IsOpen(at) != open {
			t.Fatalf("%s for %s in %s: open at %s is %t", s.text(), duration, zone, at, !open)
		}
	}
}

// Around each change of the clocks of each zone, a window opens when a clock on the wall says so.
// Claim: Windows open by the wall clock in every zone. Broken: a time that exists twice opens it twice. Also: TestAnyScheduleOpensByTheClockOnTheWall; hub/internal/fleet/rollout TestWindowsOnTheDaysOnWhichTheClocksChange.
// Edge case: Windows on days when clocks change. Also: hub/internal/fleet/rollout TestWindowsOnTheDaysOnWhichTheClocksChange.
func TestWindowsOpenByTheClockOnTheWallInEveryZone(t *testing.T) {
	schedules := []spec{
		{[]int{30}, []int{2}}, {[]int{0}, []int{0}}, {[]int{15}, []int{1, 2, 3}}, {[]int{45}, []int{23}}, {[]int{0, 30}, hoursOfDay()},
	}
	seen := 0
	for i, zone := range zones(t) {
		all := changes(zone)
		if testing.Short() && len(all) > 2 {
			all = all[:2]
		}
		for j, change := range all {
			from := change.UTC().Truncate(time.Minute).Add(-30 * time.Hour)
			s := schedules[(i+j)%len(schedules)]
			for _, s := range []spec{s, schedules[(i+j+1)%len(schedules)]} {
				compare(t, zone, from, from.Add(60*time.Hour), s, 30*time.Minute)
			}
			seen++
		}
	}
	if seen < 100 {
		t.Fatalf("only %d changes of clocks were seen", seen)
	}
}

func TestAnyScheduleOpensByTheClockOnTheWall(t *testing.T) {
	all := zones(t)
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(all).Draw(t, "zone")
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 3*365*24*60).Draw(t, "minute")) * time.Minute)
		if near := changes(zone); len(near) > 0 && rapid.Bool().Draw(t, "near a change") {
			from = rapid.SampledFrom(near).Draw(t, "change").UTC().Truncate(time.Minute).Add(-time.Duration(rapid.IntRange(0, 2880).Draw(t, "before")) * time.Minute)
		}
		hours := rapid.OneOf(rapid.Just(hoursOfDay()), rapid.SliceOfNDistinct(rapid.IntRange(0, 23), 1, 4, rapid.ID[int]))
		s := spec{rapid.SliceOfNDistinct(rapid.IntRange(0, 59), 1, 4, rapid.ID[int]).Draw(t, "minutes"), hours.Draw(t, "hours")}
		compare(t, zone, from, from.Add(50*time.Hour), s, time.Duration(rapid.IntRange(1, 600).Draw(t, "duration"))*time.Minute)
	})
}

// A window is open when one of its openings is less than its duration ago and no exclusion covers the moment, and OpensAt is the
// first such moment.
// Claim: Nothing starts in an exclusion. Broken: not broken alone. Also: hub/internal/fleet TestNothingIsBegunInAnExclusion.
func TestExclusionsCloseWindows(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC)
		s := spec{[]int{rapid.IntRange(0, 59).Draw(t, "minute")}, []int{rapid.IntRange(0, 23).Draw(t, "hour")}}
		schedule, err := Parse(s.text(), zone)
		if err != nil {
			t.Fatal(err)
		}
		w := Window{Schedule: schedule, Duration: time.Duration(rapid.IntRange(1, 40*60).Draw(t, "duration")) * time.Minute}
		if rapid.Bool().Draw(t, "no schedule") {
			w.Schedule = nil
		}
		for range rapid.IntRange(0, 4).Draw(t, "exclusions") {
			from := start.Add(time.Duration(rapid.IntRange(0, 10*24*60).Draw(t, "from")) * time.Minute)
			w.Excluded = append(w.Excluded, Span{from, from.Add(time.Duration(rapid.IntRange(1, 5*24*60).Draw(t, "for")) * time.Minute)})
		}
		open := func(at time.Time) bool {
			if slices.ContainsFunc(w.Excluded, func(s Span) bool { return !at.Before(s.Start) && at.Before(s.End) }) {
				return false
			}
			if w.Schedule == nil {
				return true
			}
			opening := schedule.Next(at.Add(-w.Duration))
			return !opening.After(at)
		}
		at := start.Add(time.Duration(rapid.IntRange(0, 12*24*60).Draw(t, "at")) * time.Minute)
		if w.IsOpen(at) != open(at) {
			t.Fatalf("open at %s is %t", at, w.IsOpen(at))
		}
		if open(at) {
			return
		}
		first := at
		for !open(first) {
			first = first.Add(time.Minute)
		}
		if got := w.OpensAt(at); !got.Equal(first) {
			t.Fatalf("from %s on it opens at %s, not at %s", at, got, first)
		}
	})
}

func TestWeekdays(t *testing.T) {
	// What is wanted is told by counting the days of each month.
	count := func(date time.Time) int {
		n := 0
		for day := date; day.Month() == date.Month(); day = day.AddDate(0, 0, -7) {
			n++
		}
		return n
	}
	for field, wanted := range map[string]func(time.Time) bool{
		"7":       func(d time.Time) bool { return d.Weekday() == time.Sunday },
		"0":       func(d time.Time) bool { return d.Weekday() == time.Sunday },
		"SUN":     func(d time.Time) bool { return d.Weekday() == time.Sunday },
		"6-7":     func(d time.Time) bool { return d.Weekday() == time.Sunday || d.Weekday() == time.Saturday },
		"fri-sun": func(d time.Time) bool { return d.Weekday() == time.Sunday || d.Weekday() >= time.Friday },
		"1-7/3": func(d time.Time) bool {
			return d.Weekday() == time.Monday || d.Weekday() == time.Thursday || d.Weekday() == time.Sunday
		},
		"*/2":   func(d time.Time) bool { return d.Weekday()%2 == 0 },
		"5/1":   func(d time.Time) bool { return d.Weekday() == time.Friday || d.Weekday() == time.Saturday },
		"6#1":   func(d time.Time) bool { return d.Weekday() == time.Saturday && count(d) == 1 },
		"sat#5": func(d time.Time) bool { return d.Weekday() == time.Saturday && count(d) == 5 },
		"7#L":   func(d time.Time) bool { return d.Weekday() == time.Sunday && d.AddDate(0, 0, 7).Day() <= 7 },
		"1,3#2": func(d time.Time) bool {
			return d.Weekday() == time.Monday || d.Weekday() == time.Wednesday && count(d) == 2
		},
	} {
		days, err := parseWeekdays(field)
		if err != nil {
			t.Fatal(err)
		}
		for day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2029; day = day.AddDate(0, 0, 1) {
			if days.includesDate(day) != wanted(day) {
				t.Fatalf("%q: %s %s is %t", field, day.Weekday(), day.Format(dateForm), days.includesDate(day))
			}
		}
	}
}

func TestWhatIsNotASchedule(t *testing.T) {
	for _, text := range []string{
		"", "0 2 * *", "0 2 * * * *", "61 2 * * *", "0 24 * * *", "0 2 32 * *", "0 2 * 13 *", "0 2 * * 8", "0 2 * * 6#0", "0 2 * * 6#6", "0 2 * * #1",
		"0 2 * * 6#", "0 2 * * 1-5#2", "0 2 * * 5-1", "0 2 * * 1/0", "0 2 * * ,", "@daily", "0 2 * * -1",
	} {
		if s, err := Parse(text, time.UTC); err == nil {
			t.Errorf("%q was read as %+v", text, s)
		}
	}
	for text, never := range map[string]bool{"0 0 30 2 *": true, "0 0 29 2 *": false, "0 0 31 4,6 *": true, "0 0 * 2 1#5": false} {
		s, err := Parse(text, time.UTC)
		if err != nil || s.Next(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)).IsZero() != never {
			t.Errorf("%q never comes: want %t: %v", text, never, err)
		}
	}
}

func TestSpans(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ start, end, from, to string }{
		{"2026-12-20", "2027-01-03", "2026-12-19T23:00:00Z", "2027-01-03T23:00:00Z"},
		{"2026-12-24", "2026-12-24", "2026-12-23T23:00:00Z", "2026-12-24T23:00:00Z"},
		{"2026-12-24T18:00", "2026-12-27T06:30", "2026-12-24T17:00:00Z", "2026-12-27T05:30:00Z"},
		{"2026-10-25T02:30", "2026-10-25T02:31", "2026-10-25T00:30:00Z", "2026-10-25T01:31:00Z"},
		{"2027-03-28T02:30", "2027-03-29", "2027-03-28T01:00:00Z", "2027-03-29T22:00:00Z"},
	} {
		span, err := ParseSpan(test.start, test.end, zone)
		if err != nil || span.Start.UTC().Format(time.RFC3339) != test.from || span.End.UTC().Format(time.RFC3339) != test.to {
			t.Errorf("%s to %s: %s to %s, %v", test.start, test.end, span.Start.UTC(), span.End.UTC(), err)
		}
	}
	for _, wrong := range [][2]string{{"2026-12-20", "2026-12-19"}, {"2026-12-20T18:00", "2026-12-20T18:00"}, {"2026-02-30", "2026-03-01"}, {"x", "2026-03-01"}, {"2026-03-01", ""}} {
		if span, err := ParseSpan(wrong[0], wrong[1], zone); err == nil {
			t.Errorf("%v was read as %v", wrong, span)
		}
	}
}
