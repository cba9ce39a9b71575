package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// largestSnapshot is how many bytes the names of a fleet's clusters may take up, with what its spec promises: the annotations of an
// object may have 256 KiB together. No rollout is started without a snapshot.
const largestSnapshot = 250 << 10

// memory is what this process knows of the rollout of a fleet.
type memory struct {
	revision string
	// members are the groups of the clusters with which the revision was started, by name, and promise is what the spec said then.
	members map[string]string
	promise *Promise
	// kept: the template is the newest that is kept, with both.
	kept bool
}

// isOfRollout reports whether it is of the rollout that a scope is about.
func (m memory) isOfRollout(s *scope) bool {
	return m.revision == s.revision && (m.promise == nil || m.promise.RetriedAt.Equal(s.plannedInput().RetriedAt))
}

// sameBasis reports whether a rollout that was started at another moment would rest on the same.
func (m memory) sameBasis(other memory) bool {
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
func (c *Controller) addSnapshot(ctx context.Context, s *scope) error {
	atRest := !slices.ContainsFunc(s.members, func(m *member) bool { return !s.isCurrent(m) || m.record.Phase != plan.Succeeded || m.record.Empty })
	if atRest || !s.hasStarted() {
		return nil
	}
	known, err := c.readMemory(ctx, s)
	if err != nil {
		return err
	}
	invalid := s.bindPromise(known)
	if s.invalid == nil {
		s.invalid = invalid
	}
	for _, m := range s.members {
		if group, known := s.snapshot[m.cluster.Name]; known {
			m.promised = &group
		}
	}
	return nil
}

// hasStarted reports whether the revision was started in a cluster, and the fleet did not leave it since: a revision that no cluster has
// any more is started with the clusters that there are then.
func (s *scope) hasStarted() bool { return s.planInput(true).Begun() }

// readMemory returns what is known of the rollout of the current revision. It is read once for each and process, because only
// this controller writes it.
func (c *Controller) readMemory(ctx context.Context, s *scope) (memory, error) {
	if known, _ := c.remembered.valueOf(s.fleet.UID); known.revision != "" && known.isOfRollout(s) {
		return known, nil
	}
	all, err := Templates(ctx, c.Live, c.Namespace, s.fleet)
	if c.preview && apierrors.IsForbidden(err) {
		return memory{}, nil // A user who looks at the fleet need not have the right to see them.
	}
	if err != nil {
		return memory{}, err
	}
	found := memory{revision: s.revision}
	if len(all) > 0 {
		// An older one has the clusters of an earlier rollout of the same templates.
		newest := all[len(all)-1]
		if kept := (memory{revision: newest.Revision, members: newest.Members, promise: newest.Promise, kept: newest.Members != nil}); kept.isOfRollout(s) {
			found = kept
		}
	}
	c.remembered.setValue(s.fleet.UID, found)
	return found, nil
}

// takeSnapshot is what the rollout keeps to if the revision is started now.
func (s *scope) takeSnapshot() memory {
	taken := memory{revision: s.revision, members: map[string]string{}}
	for _, m := range s.members {
		if m.selected {
			taken.members[m.cluster.Name] = m.group
		}
	}
	taken.promise = s.newPromise(taken.members)
	return taken
}

// setSnapshot notes with which clusters a revision is started, and what the spec says. An error says that it cannot be kept: then
// nothing may be started.
func setSnapshot(kept *appsv1.ControllerRevision, taken memory) error {
	members, promise, err := taken.texts()
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&kept.ObjectMeta, v1alpha1.FleetMembersAnnotation, members)
	metav1.SetMetaDataAnnotation(&kept.ObjectMeta, v1alpha1.FleetPromiseAnnotation, promise)
	return nil
}

// texts are what a snapshot is kept as.
func (m memory) texts() (members, promise string, err error) {
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
func (s *scope) unkeepable() *problem {
	if s.snapshot != nil || !slices.ContainsFunc(s.members, func(m *member) bool { return m.selected && !s.isCurrent(m) }) {
		return nil
	}
	var large sizeError
	if _, _, err := s.takeSnapshot().texts(); !errors.As(err, &large) {
		return nil // Another error is that of the write.
	}
	field, remedy := selectionField(s.fleet), "select fewer clusters, and use several fleets"
	if large.spec > large.names {
		field, remedy = "spec", "shorten maintenanceWindows, maintenanceExclusions and the selectors of groups"
	}
	return &problem{v1alpha1.ReasonRolloutTooLarge, fmt.Sprintf("%s: %s: %s", field, large.Error(), remedy)}
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
