package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // The hub's image need not have the time zones.

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/calendar"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// windows are the maintenance windows and exclusions of a fleet at one moment.
type windows struct {
	now        time.Time
	windows    []window
	exclusions []exclusion
	// known are the answers by which windows and exclusions choose a cluster: there are fewer of them than clusters.
	known map[string]opening
}

// choice names the windows and exclusions that choose a cluster, by their places in the spec.
type choice struct {
	Windows    []int `json:"windows,omitempty"`
	Exclusions []int `json:"exclusions,omitempty"`
}

func (c choice) choiceKey() string { return fmt.Sprint(c.Windows, c.Exclusions) }

// hours are the windows of a cluster, of which one has to be open.
type hours []calendar.Window

func (h hours) isOpen(at time.Time) bool {
	return slices.ContainsFunc(h, func(w calendar.Window) bool { return w.IsOpen(at) })
}

// opensAt is the first moment after one at which any of them opens; zero if there is none.
func (h hours) opensAt(after time.Time) time.Time {
	var first time.Time
	for i := range h {
		if at := h[i].OpensAt(after); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// window is a maintenance window as it is at one moment, whatever the exclusions.
type window struct {
	calendar.Window
	clusters labels.Selector
	open     bool
	// opens is when the window opens next.
	opens time.Time
}

// exclusion is a time in which no window is open in some clusters.
type exclusion struct {
	calendar.Span
	clusters labels.Selector
}

// opening is what windows and exclusions say of a cluster. opens is zero if it is open, or no moment is known at which it will be;
// again is then when it is to be looked for again.
type opening struct {
	closed       bool
	opens, again time.Time
}

// newWindows reads the maintenance windows and the exclusions of a fleet.
func newWindows(fleet *v1alpha1.MachineFleet, now time.Time) (*windows, *Problem) {
	return readWindows(fleet.Spec.MaintenanceWindows, fleet.Spec.MaintenanceExclusions, now)
}

func readWindows(specs []v1alpha1.MaintenanceWindow, exclusions []v1alpha1.MaintenanceExclusion, now time.Time) (*windows, *Problem) {
	all := &windows{now: now, known: map[string]opening{}}
	for i := range specs {
		w, invalid := newWindow(&specs[i], now)
		if invalid != nil {
			return nil, invalid
		}
		all.windows = append(all.windows, w)
	}
	for i := range exclusions {
		e, invalid := newExclusion(&exclusions[i])
		if invalid != nil {
			return nil, invalid
		}
		all.exclusions = append(all.exclusions, e)
	}
	return all, nil
}

func newWindow(spec *v1alpha1.MaintenanceWindow, now time.Time) (window, *Problem) {
	invalid := func(field, format string, args ...any) (window, *Problem) {
		return window{}, invalidIn("maintenanceWindows", spec.Name, field, format, args...)
	}
	w := window{}
	w.Duration = spec.Duration.Duration
	var wrong *Problem
	if w.clusters, wrong = clustersOf("maintenanceWindows", spec.Name, spec.ClusterSelector); wrong != nil {
		return w, wrong
	}
	zone, wrong := zoneOf("maintenanceWindows", spec.Name, spec.TimeZone)
	if wrong != nil {
		return w, wrong
	}
	if strings.ContainsAny(spec.Schedule, "=@") {
		return invalid("schedule", "%q: use the five fields of crontab, such as 0 2 * * 6, and timeZone for the zone", spec.Schedule)
	}
	var err error
	if w.Schedule, err = calendar.Parse(spec.Schedule, zone); err != nil {
		return invalid("schedule", "%q: %v: use the five fields of crontab, such as 0 2 * * 6, or 0 2 * * 6#1 for the first Saturday of a month", spec.Schedule, err)
	}
	if w.Duration <= 0 {
		return invalid("duration", "%s is not more than 0: use one such as 4h", w.Duration)
	}
	if w.opens = w.OpensAt(now); w.opens.IsZero() {
		return invalid("schedule", "%q never occurs: correct it, or remove the window", spec.Schedule)
	}
	w.open = w.IsOpen(now)
	return w, nil
}

func newExclusion(spec *v1alpha1.MaintenanceExclusion) (exclusion, *Problem) {
	e := exclusion{}
	var wrong *Problem
	if e.clusters, wrong = clustersOf("maintenanceExclusions", spec.Name, spec.ClusterSelector); wrong != nil {
		return e, wrong
	}
	zone, wrong := zoneOf("maintenanceExclusions", spec.Name, spec.TimeZone)
	if wrong != nil {
		return e, wrong
	}
	var err error
	if e.Span, err = calendar.ParseSpan(spec.Start, spec.End, zone); err != nil {
		field := "start"
		if errors.Is(err, calendar.ErrEnd) {
			field = "end"
		}
		return e, invalidIn("maintenanceExclusions", spec.Name, field, "%v: correct it, or remove the exclusion", err)
	}
	return e, nil
}

// invalidIn is the problem of a field of an entry of a list.
func invalidIn(list, name, field, format string, args ...any) *Problem {
	return &Problem{v1alpha1.ReasonInvalidFleet, fmt.Sprintf("spec.%s[%s].%s: ", list, name, field) + fmt.Sprintf(format, args...)}
}

func clustersOf(list, name string, from *metav1.LabelSelector) (labels.Selector, *Problem) {
	if from == nil {
		return labels.Everything(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		return nil, invalidIn(list, name, "clusterSelector", "it is not a label selector: %v: correct it", err)
	}
	return selector, nil
}

func zoneOf(list, name, zone string) (*time.Location, *Problem) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, invalidIn(list, name, "timeZone", "%q is not a time zone: use a name such as UTC or Europe/Berlin", zone)
	}
	return location, nil
}

// OpensAt is when the first window opens for which a plan waits; zero if it waits for none.
func (s *Scope) OpensAt(p plan.Plan) time.Time {
	var first time.Time
	for _, m := range s.Members {
		if slices.Contains(p.Closed, m.Cluster.Name) && !m.opensAt.IsZero() && (first.IsZero() || m.opensAt.Before(first)) {
			first = m.opensAt
		}
	}
	return first
}

// standingOfWindows says for which clusters a plan waits because of their windows; empty if for none.
func (s *Scope) standingOfWindows(p plan.Plan, list func([]string) string) string {
	if len(p.Closed) == 0 {
		return ""
	}
	opens := "none of which opens within the time that the hub plans ahead"
	if at := s.OpensAt(p); !at.IsZero() {
		opens = "the first of which opens at " + at.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("; outside of their maintenance windows, %s: %s", opens, list(p.Closed))
	var promised []string
	for _, m := range s.Members {
		if m.promisedClosed && slices.Contains(p.Closed, m.Cluster.Name) {
			promised = append(promised, m.Cluster.Name)
		}
	}
	if len(promised) > 0 {
		text += fmt.Sprintf(". By the windows, exclusions and labels from the start of the rollout, which apply until it is complete: %s: wait, or %s",
			list(promised), wayOut)
	}
	return text
}

// isClosed reports whether nothing is started in a cluster now: there are windows for it and none of them is open, or there is an exclusion
// for it; and when that is over.
func isClosed(all *windows, cluster *v1alpha1.Cluster) (opens time.Time, is bool) {
	found := all.openingFor(all.chooseFor(labels.Set(cluster.Labels)))
	return found.opens, found.closed
}

// chooseFor finds the windows and exclusions for a cluster with such labels.
func (w *windows) chooseFor(has labels.Set) choice {
	var c choice
	for i, window := range w.windows {
		if window.clusters.Matches(has) {
			c.Windows = append(c.Windows, i)
		}
	}
	for i, exclusion := range w.exclusions {
		if exclusion.clusters.Matches(has) {
			c.Exclusions = append(c.Exclusions, i)
		}
	}
	return c
}

// hoursFor are the windows of a choice, without its exclusions.
func (w *windows) hoursFor(c choice) hours {
	var excluded []calendar.Span
	for _, i := range c.Exclusions {
		excluded = append(excluded, w.exclusions[i].Span)
	}
	if len(c.Windows) == 0 {
		return hours{{Excluded: excluded}} // Only exclusions close it.
	}
	var all hours
	for _, i := range c.Windows {
		window := w.windows[i].Window
		window.Excluded = excluded
		all = append(all, window)
	}
	return all
}

// openingFor is what the windows and exclusions of a choice say.
func (w *windows) openingFor(c choice) opening {
	key := c.choiceKey()
	found, known := w.known[key]
	if !known {
		found = openingOf(w.now, w.hoursFor(c))
		w.known[key] = found
	}
	return found
}

// mostOpenings is how many openings are looked at for one at which everything is open.
const mostOpenings = 64

// openingOf finds out whether all of some hours are open, and when they will be.
func openingOf(now time.Time, all ...hours) opening {
	at := now
	for range mostOpenings {
		next := at
		for _, h := range all {
			if h.isOpen(at) {
				continue
			}
			opens := h.opensAt(at)
			if opens.IsZero() {
				return opening{closed: true}
			}
			if opens.After(next) {
				next = opens
			}
		}
		switch {
		case next.Equal(at) && at.Equal(now):
			return opening{}
		case next.Equal(at):
			return opening{closed: true, opens: at}
		}
		at = next
	}
	return opening{closed: true, again: at}
}

// windowlessClusters are the selected clusters, by name, that none of the fleet's windows chooses: a template is started there at any time.
func (s *Scope) windowlessClusters() []string {
	if s.windows == nil || len(s.windows.windows) == 0 {
		return nil
	}
	var names []string
	for _, m := range s.Members {
		chosen := slices.ContainsFunc(s.windows.windows, func(w window) bool { return w.clusters.Matches(labels.Set(m.Cluster.Labels)) })
		if m.Selected && !chosen {
			names = append(names, m.Cluster.Name)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}
