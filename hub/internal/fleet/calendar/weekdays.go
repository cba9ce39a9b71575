package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// weekdays is the last field of a schedule.
type weekdays struct {
	// every: the field is * or ?.
	every bool
	// any has the days that are meant in each week; the others only in some weeks of a month.
	any [7]bool
	// nth has the weeks of a month, from 1, in which a day is meant; last is the last such day of a month.
	nth  [7][6]bool
	last [7]bool
}

// includesDate reports whether a date is meant.
func (w *weekdays) includesDate(date time.Time) bool {
	day := date.Weekday()
	if w.every || w.any[day] || w.nth[day][(date.Day()-1)/7+1] {
		return true
	}
	return w.last[day] && date.AddDate(0, 0, 7).Month() != date.Month()
}

// parseWeekdays reads a list of days, such as 1-5, sun, 7, */2, 6#1 and 6#L.
func parseWeekdays(field string) (weekdays, error) {
	w := weekdays{}
	for _, item := range strings.Split(field, ",") {
		if err := w.addItem(item); err != nil {
			return weekdays{}, fmt.Errorf("day of week %q: %w", item, err)
		}
	}
	return w, nil
}

func (w *weekdays) addItem(item string) error {
	if day, week, isNth := strings.Cut(item, "#"); isNth {
		return w.addNth(day, week)
	}
	span, stepText, hasStep := strings.Cut(item, "/")
	step := 1
	if hasStep {
		var err error
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return fmt.Errorf("%q is not a step", stepText)
		}
	}
	first, last, err := readDays(span, hasStep)
	if err != nil {
		return err
	}
	w.every = w.every || !hasStep && (span == "*" || span == "?")
	for day := first; day <= last; day += step {
		w.any[day%7] = true
	}
	return nil
}

// readDays reads a day, a range, or all days. A day with a step is the start of a range.
func readDays(span string, hasStep bool) (first, last int, err error) {
	if span == "*" || span == "?" {
		return 0, 6, nil
	}
	from, to, isRange := strings.Cut(span, "-")
	if first, err = parseWeekday(from); err != nil {
		return 0, 0, err
	}
	switch last = 6; {
	case isRange:
		if last, err = parseWeekday(to); err != nil {
			return 0, 0, err
		}
	case !hasStep:
		last = first
	}
	if last == 0 && first > 0 {
		last = 7 // As in SAT-SUN.
	}
	if first > last {
		return 0, 0, errors.New("it ends before it starts")
	}
	return first, last, nil
}

// addNth adds a day that is meant in one week of each month.
func (w *weekdays) addNth(day, week string) error {
	number, err := parseWeekday(day)
	if err != nil {
		return err
	}
	if strings.EqualFold(week, "L") {
		w.last[number%7] = true
		return nil
	}
	nth, err := strconv.Atoi(week)
	if err != nil || nth < 1 || nth > 5 {
		return fmt.Errorf("after # is %q and not a number from 1 to 5, or L for the last one of a month", week)
	}
	w.nth[number%7][nth] = true
	return nil
}

// names are those of the days, from 0.
var names = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseWeekday reads a day: 0 to 7, where 0 and 7 are Sunday, or a name.
func parseWeekday(text string) (int, error) {
	if i := slices.Index(names, strings.ToLower(text)); i >= 0 {
		return i, nil
	}
	day, err := strconv.Atoi(text)
	if err != nil || day < 0 || day > 7 {
		return 0, fmt.Errorf("%q is not a day from 0 to 7, nor one of sun to sat", text)
	}
	return day, nil
}

// splitFields splits a schedule at its spaces.
func splitFields(text string) []string { return strings.Fields(text) }
