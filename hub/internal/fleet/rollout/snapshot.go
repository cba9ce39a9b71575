package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// largestSnapshot is how many bytes the names of a fleet's clusters may take up, with what its spec promises: the annotations of an
// object may have 256 KiB together. No rollout is started without a snapshot.
const largestSnapshot = 250 << 10

// Snapshot is what this process knows of the rollout of a fleet.
type Snapshot struct {
	revision string
	// members are the groups of the clusters with which the revision was started, by name, and promise is what the spec said then.
	members map[string]string
	promise *Promise
	// kept: the template is the newest that is kept, with both.
	kept bool
	// unbound: an older hub kept the template alone, because the rest was too large.
	unbound bool
}

// isOfRollout reports whether it is of the rollout that a scope is about.
func (m Snapshot) isOfRollout(s *Scope) bool {
	return m.revision == s.Revision && (m.promise == nil || m.promise.RetriedAt.Equal(s.plannedInput().RetriedAt))
}

// sameBasis reports whether a rollout that was started at another moment would rest on the same.
func (m Snapshot) sameBasis(other Snapshot) bool {
	if m.revision != other.revision || !maps.Equal(m.members, other.members) || m.promise == nil || other.promise == nil {
		return false
	}
	promise := *m.promise
	promise.Since = other.promise.Since
	a, errA := json.Marshal(promise)
	b, errB := json.Marshal(other.promise)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// addSnapshot reads with which clusters and which spec the revision was started. It matters only while some cluster is not through:
// a fleet at rest costs no read.
func (r *Observer) addSnapshot(ctx context.Context, s *Scope) error {
	atRest := !slices.ContainsFunc(s.Members, func(m *Member) bool { return !s.IsCurrent(m) || m.Record.Phase != plan.Succeeded || m.Record.Empty })
	if atRest || !s.hasStarted() {
		return nil
	}
	known, err := r.readMemory(ctx, s)
	if err != nil {
		return err
	}
	invalid := s.bindPromise(known)
	if s.Invalid == nil {
		s.Invalid = invalid
	}
	for _, m := range s.Members {
		if group, known := s.snapshot[m.Cluster.Name]; known {
			m.promised = &group
		}
	}
	return nil
}

// hasStarted reports whether the revision was started in a cluster, and the fleet did not leave it since: a revision that no cluster has
// any more is started with the clusters that there are then.
func (s *Scope) hasStarted() bool { return s.planInput(true).Begun() }

// readMemory returns what is known of the rollout of the current revision. It is read once for each and process, because only
// this controller writes it.
func (r *Observer) readMemory(ctx context.Context, s *Scope) (Snapshot, error) {
	if known, _ := r.remembered.ValueOf(s.Fleet.UID); known.revision != "" && known.isOfRollout(s) {
		return known, nil
	}
	all, err := Templates(ctx, r.Live, s.Fleet)
	if err != nil {
		return Snapshot{}, err
	}
	found := Snapshot{revision: s.Revision}
	if len(all) > 0 {
		// An older one has the clusters of an earlier rollout of the same templates.
		if newest := all[len(all)-1].Snapshot(); newest.isOfRollout(s) {
			found = newest
			found.kept = newest.members != nil
		}
	}
	r.remembered.SetValue(s.Fleet.UID, found)
	return found, nil
}

// IsKept reports whether the template is the newest that is kept, and what is kept with it is of the rollout that a scope is about, or the
// same as taken.
func (r *Observer) IsKept(s *Scope, taken Snapshot) bool {
	known, _ := r.remembered.ValueOf(s.Fleet.UID)
	unbound := taken.IsEmpty() && known.revision == taken.revision
	return known.kept && (s.HasSnapshot() && known.isOfRollout(s) || unbound || known.sameBasis(taken))
}

// NoteKept remembers a snapshot as the newest that is kept.
func (r *Observer) NoteKept(s *Scope, taken Snapshot) {
	taken.kept = true
	r.remembered.SetValue(s.Fleet.UID, taken)
}

// HasSnapshot reports whether it is known with which clusters the revision was started.
func (s *Scope) HasSnapshot() bool { return s.snapshot != nil }

// Snapshot is what is kept with a template.
func (t Template) Snapshot() Snapshot {
	return Snapshot{revision: t.Revision, members: t.Members, promise: t.Promise, unbound: t.Members == nil && t.Promise == nil}
}

// SnapshotToKeep is what is to be kept with the template if the revision is started in a cluster now. An older hub could start a rollout
// whose snapshot is too large: that rollout continues by the spec as it is now, and nothing is kept.
func (s *Scope) SnapshotToKeep() Snapshot {
	taken := s.takeSnapshot()
	var large sizeError
	if _, _, err := taken.texts(); s.snapshot == nil && s.unbound && errors.As(err, &large) {
		return Snapshot{revision: s.Revision, unbound: true}
	}
	return taken
}

// IsEmpty reports whether there is nothing to keep but the template.
func (m Snapshot) IsEmpty() bool { return m.promise == nil }

// takeSnapshot is what the rollout keeps to if the revision is started now.
func (s *Scope) takeSnapshot() Snapshot {
	taken := Snapshot{revision: s.Revision, members: map[string]string{}}
	for _, m := range s.Members {
		if m.Selected {
			taken.members[m.Cluster.Name] = m.group
		}
	}
	taken.promise = s.newPromise(taken.members)
	return taken
}

// SetSnapshot notes with which clusters a revision is started, and what the spec says. An error says that it cannot be kept: then
// nothing may be started.
func SetSnapshot(kept *appsv1.ControllerRevision, taken Snapshot) error {
	if taken.IsEmpty() {
		return nil
	}
	members, promise, err := taken.texts()
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&kept.ObjectMeta, v1alpha1.FleetMembersAnnotation, members)
	metav1.SetMetaDataAnnotation(&kept.ObjectMeta, v1alpha1.FleetPromiseAnnotation, promise)
	return nil
}

// texts are what a snapshot is kept as.
func (m Snapshot) texts() (members, promise string, err error) {
	names, err := json.Marshal(membersByGroup(m.members))
	if err != nil {
		return "", "", fmt.Errorf("writing the names of clusters as text: %w", err)
	}
	spec, err := json.Marshal(m.promise)
	if err != nil {
		return "", "", fmt.Errorf("writing what the spec promises as text: %w", err)
	}
	if size := len(names) + len(spec); size > largestSnapshot {
		return "", "", sizeError{clusters: len(m.members), names: len(names), spec: len(spec)}
	}
	return string(names), string(spec), nil
}

// sizeError says that a snapshot is larger than an object may be.
type sizeError struct{ clusters, names, spec int }

func (e sizeError) Error() string {
	return fmt.Sprintf("a rollout keeps the names of its clusters, and what gates say when it starts, in %d KiB: the names of %d clusters need %d KiB, and the gates %d KiB",
		largestSnapshot>>10, e.clusters, e.names>>10, e.spec>>10)
}

// unkeepable says why no rollout can be started, because what it promises could not be kept; nil if one can, or is.
func (s *Scope) unkeepable() *Problem {
	if s.snapshot != nil || s.unbound || !slices.ContainsFunc(s.Members, func(m *Member) bool { return m.Selected && !s.IsCurrent(m) }) {
		return nil
	}
	var large sizeError
	if _, _, err := s.takeSnapshot().texts(); !errors.As(err, &large) {
		return nil // Another error is that of the write.
	}
	field, remedy := selectionField(s.Fleet), "select fewer clusters, and use several fleets"
	if large.spec > large.names {
		field, remedy = "spec", "shorten maintenanceWindows, maintenanceExclusions and the selectors of groups"
	}
	return &Problem{v1alpha1.ReasonRolloutTooLarge, fmt.Sprintf("%s: %s: %s", field, large.Error(), remedy)}
}

// readSnapshot is the opposite of setSnapshot.
func readSnapshot(kept *appsv1.ControllerRevision) (map[string]string, *Promise) {
	return readMembers(kept), readPromise(kept.Annotations[v1alpha1.FleetPromiseAnnotation])
}

// membersByGroup are the names of the clusters with which a revision is started, sorted.
func membersByGroup(members map[string]string) map[string][]string {
	byGroup := map[string][]string{}
	for name, group := range members {
		byGroup[group] = append(byGroup[group], name)
	}
	for _, names := range byGroup {
		slices.Sort(names)
	}
	return byGroup
}

// readMembers is the opposite of membersByGroup; nil if there is nothing that can be read.
func readMembers(kept *appsv1.ControllerRevision) map[string]string {
	byGroup := map[string][]string{}
	if json.Unmarshal([]byte(kept.Annotations[v1alpha1.FleetMembersAnnotation]), &byGroup) != nil {
		return nil
	}
	members := map[string]string{}
	for group, names := range byGroup {
		for _, name := range names {
			members[name] = group
		}
	}
	return members
}
