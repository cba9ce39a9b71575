// Package overview is how a fleet is: its hub, and what is not healthy. The command status prints it, and the dashboard shows it.
package overview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// Fleet is all that is known of how a fleet is.
type Fleet struct {
	Now time.Time
	// Scope is what of it is looked at. ClusterForbidden: the Cluster of a namespace may not be read.
	Scope            Scope
	ClusterForbidden bool
	Hub              cmdutil.HubState
	// HubUnread says why the Lease of the hub was not read, and HubForbidden that it may not be.
	HubUnread    string
	HubForbidden bool
	// Removed are the kinds that are being deleted.
	Removed []string
	Report  health.Report
	// Rollouts are those that are not complete: of MachineFleets first, then of SimulatedClusterSets.
	Rollouts []Rollout
	// Failed is why nothing was looked at.
	Failed error
	// Keeper is what is wrong with the keeper of a local fleet; empty if nothing is, or the hub is elsewhere.
	Keeper string
	// Lost says since when the hub's API server has not answered, if all is from then; LostSince is when that was. Stale are the kinds that are
	// not followed any more, with what is known of them from before.
	Lost      string
	LostSince time.Time
	Stale     []StaleKind
	// Took is how long it took to look, if that is so long that what was read first is old.
	Took time.Duration
}

// StaleKind is a kind whose objects are shown as they were, because they cannot be followed.
type StaleKind struct {
	Kind string `json:"kind"`
	// Since is from when its objects are.
	Since metav1.Time `json:"since"`
	// Problem is why they are not followed.
	Problem string `json:"problem"`
}

// ObserveHub reads what is known of the hub itself.
func ObserveHub(ctx context.Context, c client.Client, now time.Time) (*Fleet, error) {
	f := &Fleet{Now: now}
	state, err := cmdutil.ReadHubState(ctx, c, now)
	switch {
	case apierrors.IsForbidden(err):
		f.HubUnread, f.HubForbidden = "you may not read its Lease: "+RootCause(err), true
		state = cmdutil.HubState{Version: cmdutil.UnknownVersion}
	case err != nil:
		return nil, err
	}
	f.Hub = state
	f.Removed, err = cmdutil.RemovedKinds(ctx, c)
	return f, err
}

// ObserveFleet reads what of a fleet is in a scope, and judges it.
func ObserveFleet(ctx context.Context, c client.Client, scope Scope, now time.Time) (*Fleet, error) {
	f, err := ObserveHub(ctx, c, now)
	if err != nil {
		return nil, err
	}
	f.Scope = scope
	kinds := scope.kinds()
	wanted := make([]live.Kind, len(kinds))
	for i, kind := range kinds {
		options, _ := scope.Options(kind)
		wanted[i] = live.Kind{Name: kind.Kind, List: kind.List(), Options: options}
	}
	lists, unread, unknown := map[string]client.ObjectList{}, map[string]error{}, 0
	for kind, found := range live.ReadKinds(ctx, c, wanted) { // One kind that cannot be read keeps no other from being looked at.
		if lists[kind] = found.List; found.Err != nil {
			unread[kind] = found.Err
		}
		if meta.IsNoMatchError(found.Err) {
			unknown++
		}
	}
	if unknown == len(kinds) {
		return nil, unread[kinds[0].Kind]
	}
	return f, f.Judge(lists, unread)
}

// Judge judges the objects of lists, by their kinds. unread says why some kinds have none.
func (f *Fleet) Judge(lists map[string]client.ObjectList, unread map[string]error) error {
	judge := &health.Judge{Now: f.Now}
	for _, kind := range f.Scope.kinds() {
		if unread[kind.Kind] == nil {
			judge.Observe(lists[kind.Kind])
		}
	}
	for _, kind := range f.Scope.kinds() {
		if err := unread[kind.Kind]; err != nil {
			f.NoteUnread(kind.Kind, err)
		} else if err := judge.Add(&f.Report, kind.Kind, lists[kind.Kind]); err != nil {
			return err
		}
	}
	f.Rollouts = slices.Concat(rolloutsIn(lists[health.MachineFleet]), rolloutsIn(lists[health.SimulatedClusterSet]))
	f.Report.Sort()
	return nil
}

// NoteUnread says why objects of a kind were not looked at.
func (f *Fleet) NoteUnread(kind string, err error) {
	switch {
	case f.Scope.Namespace != "" && kind == health.Cluster && apierrors.IsForbidden(err):
		f.ClusterForbidden = true
	case meta.IsNoMatchError(err):
		f.Report.NotLooked(kind, cmdutil.MissingKind, false)
	case apierrors.IsForbidden(err):
		f.Report.NotLooked(kind, "you may not list them: "+RootCause(err), true)
	default:
		f.Report.NotLooked(kind, "they could not be listed: "+RootCause(err), false)
	}
}

// RootCause is an error of the API server without what it is wrapped in.
func RootCause(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// IsNamespaceMissing reports whether the user may list a kind in no namespace but those that they name.
func (f *Fleet) IsNamespaceMissing() bool {
	return f.Scope.Namespace == "" && slices.ContainsFunc(f.Report.Counts, func(count health.Count) bool { return count.Kind == health.Machine && count.Forbidden })
}

// HealthyLine says that there is no problem.
func (f *Fleet) HealthyLine() string {
	subject := f.Scope.subject()
	return strings.ToUpper(subject[:1]) + subject[1:] + " is healthy"
}

// IsEmpty reports whether there is nothing to judge.
func (f *Fleet) IsEmpty() bool {
	return !slices.ContainsFunc(f.Report.Counts, func(count health.Count) bool { return count.Total > 0 || count.NotLookedAt != "" })
}

// HubLine says whether the hub works.
func (f *Fleet) HubLine() string {
	switch {
	case f.Lost != "":
		return f.Lost + ". Everything below is the last known state"
	case f.HubUnread != "":
		return "not checked: " + f.HubUnread
	case f.Hub.Problem != "":
		return f.Hub.Problem + ". Everything below is the last known state"
	}
	return fmt.Sprintf("works: %s, version %s, Lease renewed %s ago", f.Hub.Holder, f.Hub.Version, duration.HumanDuration(f.Hub.Renewed))
}

// CountLine counts the objects of a kind by their states.
func CountLine(count health.Count) string {
	if count.NotLookedAt != "" {
		return "not checked: " + count.NotLookedAt
	}
	line := fmt.Sprintf("%d: %d healthy", count.Total, count.Healthy)
	for _, part := range []struct {
		n    int
		what string
	}{{count.InProgress, "in progress"}, {count.Waiting, "waiting"}, {count.Paused, "paused"}, {count.Problems, "with problems"}} {
		if part.n > 0 {
			line += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return line
}

// VerdictError is the error of a fleet that is not healthy, or was not looked at.
func (f *Fleet) VerdictError() error {
	if f.Failed != nil {
		return f.Failed
	}
	problems := f.HubProblems()
	for _, count := range f.Report.Counts {
		if !count.Forbidden && count.NotLookedAt == "" && count.Problems > 0 {
			problems = append(problems, fmt.Sprintf("%d of %s", count.Problems, plural.Count(count.Total, count.Kind)))
		}
	}
	missing, forbidden := f.listUnseen()
	unseen := strings.Join(append(missing, forbidden...), ", ")
	switch {
	case len(problems) > 0 && unseen != "":
		return fmt.Errorf("%s is not healthy: %s; not checked: %s", f.Scope.subject(), strings.Join(problems, "; "), unseen)
	case len(problems) > 0:
		return fmt.Errorf("%s is not healthy: %s", f.Scope.subject(), strings.Join(problems, "; "))
	case len(missing) > 0:
		return fmt.Errorf("whether %s is healthy is unknown: not checked: %s", f.Scope.subject(), unseen)
	case len(forbidden) > 0:
		return cmdutil.Refusal("whether %s is healthy is unknown: you may not list: %s", f.Scope.subject(), unseen)
	}
	return nil
}

// listUnseen is what was not looked at: forbidden for lack of a right, and missing for all else.
func (f *Fleet) listUnseen() (missing, forbidden []string) {
	if f.Took > 0 {
		missing = append(missing, fmt.Sprintf("everything that has happened since, because reading took %s: run it again", f.Took.Round(time.Second)))
	}
	if f.Lost != "" {
		missing = append(missing, "everything that has happened since: "+f.Lost)
	}
	for _, kind := range f.Stale {
		missing = append(missing, fmt.Sprintf("%s since %s: %s", kind.Kind, kind.Since.UTC().Format(time.RFC3339), kind.Problem))
	}
	if f.HubForbidden {
		forbidden = append(forbidden, "the Lease of the hub")
	}
	if f.ClusterForbidden {
		forbidden = append(forbidden, "Cluster "+f.Scope.Namespace)
	}
	for _, count := range f.Report.Counts {
		switch {
		case count.Forbidden:
			forbidden = append(forbidden, count.Kind)
		case count.NotLookedAt != "":
			missing = append(missing, count.Kind)
		}
	}
	return missing, forbidden
}

// HubProblems are those of the hub itself.
func (f *Fleet) HubProblems() (problems []string) {
	if f.Hub.Problem != "" {
		problems = append(problems, "the hub does not work")
	}
	if f.Keeper != "" {
		problems = append(problems, f.Keeper)
	}
	if len(f.Removed) > 0 {
		problems = append(problems, "the hub is being removed: "+strings.Join(f.Removed, ", "))
	}
	return problems
}
