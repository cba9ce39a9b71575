package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
)

// What is read for a story, by the names that messages have.
const (
	machines    = "Machine"
	clusters    = "Cluster"
	classes     = "MachineClass"
	sets        = "MachineSet"
	deployments = "MachineDeployment"
	events      = "Event"
)

// mostEvents is how many events are shown: those of a Machine that turns to and fro would fill a screen.
const mostEvents = 10

// listKinds are what a Machine's story is made of. The owner of its MachineSet is read first, because its name is in no other object.
func listKinds(ctx context.Context, c client.Reader, machine *v1alpha1.Machine) []live.Kind {
	named := func(name string) []client.ListOption {
		return []client.ListOption{client.InNamespace(machine.Namespace), client.MatchingFields{"metadata.name": name}}
	}
	kinds := []live.Kind{
		{Name: machines, List: &v1alpha1.MachineList{}, Options: named(machine.Name)},
		{Name: clusters, List: &v1alpha1.ClusterList{}, Options: []client.ListOption{client.MatchingFields{"metadata.name": machine.Namespace}}},
	}
	if class := machine.Spec.ProviderConfig.ValueRef; class != nil {
		kinds = append(kinds, live.Kind{Name: classes, List: &v1alpha1.MachineClassList{}, Options: named(class.Name)})
	}
	about := []string{machine.Name}
	if owner := metav1.GetControllerOf(machine); owner != nil && owner.Kind == sets {
		kinds = append(kinds, live.Kind{Name: sets, List: &v1alpha1.MachineSetList{}, Options: named(owner.Name)})
		about = append(about, owner.Name)
		set := &v1alpha1.MachineSet{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: owner.Name}, set); err == nil {
			if above := metav1.GetControllerOf(set); above != nil && above.Kind == deployments {
				kinds = append(kinds, live.Kind{Name: deployments, List: &v1alpha1.MachineDeploymentList{}, Options: named(above.Name)})
				about = append(about, above.Name)
			}
		}
	}
	for _, name := range about {
		kinds = append(kinds, live.Kind{Name: events + "s of " + name, List: &eventsv1.EventList{}, Options: []client.ListOption{
			client.InNamespace(machine.Namespace), client.MatchingFields{"regarding.name": name},
		}})
	}
	return kinds
}

// story is all that is told of a Machine.
type story struct {
	now      time.Time
	document Document

	cluster    *v1alpha1.Cluster
	class      *v1alpha1.MachineClass
	set        *v1alpha1.MachineSet
	deployment *v1alpha1.MachineDeployment
	// unread are the kinds that could not be read, and forbidden those of them that the user may not list.
	unread, forbidden []string
}

// newStory tells the story of a Machine of what was read. machine is what it was when it was named.
func newStory(machine *v1alpha1.Machine, known map[string]live.Snapshot, describe func(error) (string, bool, bool), now time.Time) (*story, error) {
	s := &story{now: now, document: Document{APIVersion: cmdutil.DocumentVersion, Kind: "MachineStory", Time: metav1.NewTime(now), Machine: machine, Events: []Event{}}}
	var happened []eventsv1.Event
	for _, name := range sortedNames(known) {
		snapshot := known[name]
		if snapshot.List == nil {
			if err := s.leaveOut(name, snapshot.Err, describe); err != nil {
				return nil, err
			}
			continue
		}
		switch list := snapshot.List.(type) {
		case *v1alpha1.MachineList:
			s.document.Machine = firstOf(list.Items)
		case *v1alpha1.ClusterList:
			s.cluster = firstOf(list.Items)
		case *v1alpha1.MachineClassList:
			s.class = firstOf(list.Items)
		case *v1alpha1.MachineSetList:
			s.set = firstOf(list.Items)
		case *v1alpha1.MachineDeploymentList:
			s.deployment = firstOf(list.Items)
		case *eventsv1.EventList:
			happened = append(happened, list.Items...)
		}
	}
	if s.document.Machine == nil {
		return nil, cmdutil.NotFound("machine %s does not exist: it was deleted in the meantime", machine.Name)
	}
	if err := cmdutil.SetKinds(s.document.Machine); err != nil {
		return nil, err
	}
	s.document.Machine.SetManagedFields(nil)
	s.document.Events = append(s.document.Events, s.chooseEvents(happened)...)
	s.relate()
	return s, s.judge()
}

// leaveOut notes what could not be read. The error is that of an API server that does not answer.
func (s *story) leaveOut(name string, err error, describe func(error) (string, bool, bool)) error {
	if err == nil { // It was not listed yet.
		return nil
	}
	why, partial, forbidden := describe(err)
	if !partial {
		return fmt.Errorf("listing %ss: %w", strings.ToLower(name), err)
	}
	if name == machines { // It was read by its name.
		return nil
	}
	kind, _, _ := strings.Cut(name, "s of ")
	if s.unread = append(s.unread, kind); forbidden && !slices.Contains(s.forbidden, kind) {
		s.forbidden = append(s.forbidden, kind)
	}
	s.document.Left = append(s.document.Left, name+": "+why)
	return nil
}

func sortedNames(known map[string]live.Snapshot) []string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// firstOf is the only item of a list of a name; nil if there is none.
func firstOf[T any](items []T) *T {
	if len(items) == 0 {
		return nil
	}
	return &items[0]
}

// judge says how the Machine is.
func (s *story) judge() error {
	judge := &health.Judge{Now: s.now}
	if !slices.Contains(s.unread, clusters) {
		found := &v1alpha1.ClusterList{}
		if s.cluster != nil {
			found.Items = append(found.Items, *s.cluster)
		}
		judge.Observe(found)
	}
	report := &health.Report{}
	if err := judge.Add(report, health.Machine, &v1alpha1.MachineList{Items: []v1alpha1.Machine{*s.document.Machine}}); err != nil {
		return err
	}
	d := &s.document
	if d.State = health.Healthy; len(report.Findings) == 0 {
		return nil
	}
	found := report.Findings[0]
	d.State, d.Reason, d.Message, d.Since, d.Next = found.State, found.Reason, found.Message, found.Since, found.Next
	return nil
}

// chooseEvents are the newest events of the Machine, and the warnings of its owners.
func (s *story) chooseEvents(happened []eventsv1.Event) []Event {
	var chosen []Event
	for i := range happened {
		event := &happened[i]
		isOwn := event.Regarding.Kind == machines && event.Regarding.UID == s.document.Machine.UID
		isOwners := slices.Contains([]string{sets, deployments}, event.Regarding.Kind) &&
			(event.Type == "Warning" || strings.Contains(event.Note, s.document.Machine.Name))
		if !isOwn && !isOwners {
			continue
		}
		at, count := lastTime(event)
		chosen = append(chosen, Event{
			Time: at, Object: event.Regarding.Kind + "/" + event.Regarding.Name, Type: event.Type, Reason: event.Reason, Message: event.Note, Count: count,
		})
	}
	slices.SortStableFunc(chosen, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason))
	})
	return chosen[max(0, len(chosen)-mostEvents):]
}

// lastTime is when an event happened last, and how often it did.
func lastTime(event *eventsv1.Event) (metav1.Time, int32) {
	switch {
	case event.Series != nil:
		return metav1.NewTime(event.Series.LastObservedTime.Time), event.Series.Count
	case !event.EventTime.IsZero():
		return metav1.NewTime(event.EventTime.Time), 1
	}
	return event.DeprecatedLastTimestamp, max(event.DeprecatedCount, 1)
}

// condition is one of the Machine; nil if it has none.
func (s *story) condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(s.document.Machine.Status.Conditions, kind)
}
