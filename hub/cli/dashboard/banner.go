package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

// banner says on every page how the fleet is, and how far what is shown can be trusted.
type banner struct {
	// Class is its colour: good, bad, warn or soft.
	Class, Headline string
	// Warnings say what is not known.
	Warnings []string
}

// fleetState is a judgement of the fleet, and an index of it.
type fleetState struct {
	*overview.Fleet
	findings map[objectName]*health.Finding
	// byCluster are the findings in the namespaces of clusters, in the order of the report.
	byCluster map[string][]*health.Finding
}

// objectName names an object of any kind.
type objectName struct{ kind, namespace, name string }

// oldest is how old a judgement may be that no change has made obsolete: times pass.
const oldest = 2 * time.Second

// restFactor is how many times as long as a judgement took the next one waits, so that a large fleet that changes all the time is not judged
// all the time.
const restFactor = 3

// isJudged reports whether objects of a kind were judged: of others it is not known how they are.
func (f *fleetState) isJudged(kind string) bool {
	return slices.ContainsFunc(f.Report.Counts, func(count health.Count) bool { return count.Kind == kind && count.NotLookedAt == "" })
}

// stateOf is the state of an object, with what was found of it; nil for nothing.
func (f *fleetState) stateOf(kind, namespace, name string) (string, *health.Finding) {
	if finding := f.findings[objectName{kind, namespace, name}]; finding != nil {
		return string(finding.State), finding
	}
	if !f.isJudged(kind) {
		return unknownState, nil
	}
	return string(health.Healthy), nil
}

// state is how the fleet is now, by the judgement of "kubectl hollow status".
func (s *server) state() (*fleetState, error) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	version, _ := s.store.nextChange()
	now, age := s.clock.Now(), s.clock.Since(s.seen.at)
	if s.seen.fleet != nil && age < oldest && (s.seen.version == version || age < min(s.seen.rest, quickest)) {
		return s.seen.fleet, nil
	}
	started := time.Now()
	contact := s.store.contactNow()
	f := &fleetState{
		Fleet:    &overview.Fleet{Now: now, Scope: s.store.scope, Hub: contact.hub, HubUnread: contact.unread, HubForbidden: contact.forbidden, Removed: contact.removed},
		findings: map[objectName]*health.Finding{}, byCluster: map[string][]*health.Finding{},
	}
	if contact.heard.IsZero() {
		f.HubUnread = "its API server has not answered yet"
	}
	lists, unread, err := s.store.snapshotLists()
	if err != nil {
		return nil, err
	}
	if err := f.Judge(lists, unread); err != nil {
		return nil, err
	}
	for i := range f.Report.Findings {
		finding := &f.Report.Findings[i]
		f.findings[objectName{finding.Kind, finding.Namespace, finding.Name}] = finding
		cluster := finding.Namespace
		if finding.Kind == health.Cluster {
			cluster = finding.Name
		}
		f.byCluster[cluster] = append(f.byCluster[cluster], finding)
	}
	s.seen.fleet, s.seen.at, s.seen.version, s.seen.rest = f, now, version, restFactor*time.Since(started)
	return f, nil
}

// newBanner makes the banner of now.
func (s *server) newBanner() banner {
	f, err := s.state()
	if err != nil {
		return banner{Class: "bad", Headline: "How the fleet is could not be found out: " + cmdutil.Printable(err.Error())}
	}
	b := banner{Class: "good", Headline: f.HealthyLine()}
	if err := f.VerdictError(); err != nil {
		b.Class, b.Headline = "bad", upperFirst(err.Error())
	}
	contact, now := s.store.contactNow(), s.clock.Now()
	quiet := now.Sub(contact.heard)
	switch {
	case contact.heard.IsZero():
		b.Class, b.Headline = "bad", "Whether the fleet is healthy is unknown: the hub's API server has not answered yet"
		if contact.failure != "" {
			b.Warnings = append(b.Warnings, contact.failure)
		}
	case quiet > mostQuiet:
		b.Class, b.Headline = "bad", fmt.Sprintf("What you see is %d seconds old: the hub's API server does not answer", int(quiet.Seconds()))
		if contact.failure != "" {
			b.Warnings = append(b.Warnings, contact.failure)
		}
	}
	if scope := f.Scope.Describe(); scope != "" {
		b.Warnings = append(b.Warnings, upperFirst(scope))
	}
	if f.IsNamespaceMissing() {
		b.Warnings = append(b.Warnings, s.adviseNamespace())
	}
	b.Warnings = append(b.Warnings, s.store.brokenKinds(now)...)
	for _, count := range f.Report.Counts {
		if count.NotLookedAt != "" {
			b.Warnings = append(b.Warnings, fmt.Sprintf("%s: not checked: %s", count.Kind, count.NotLookedAt))
		}
	}
	return b
}

// adviseNamespace is how to see a namespace for who may list no others.
func (s *server) adviseNamespace() string {
	if s.user != "" {
		return "You may not list all namespaces. For one that you may list, open /" + namespacePath + "/NAMESPACE/ here"
	}
	return "You may not list all namespaces. For one that you may list: kubectl hollow dashboard -n NAMESPACE"
}

// upperFirst makes a sentence of an error's text.
func upperFirst(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
