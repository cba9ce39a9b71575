package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// largestSnapshot is how many bytes the names of a fleet's clusters may take up: the annotations of an object may have 256 KiB
// together. Without a snapshot a rollout rests on the clusters that the fleet has at the moment.
const largestSnapshot = 224 << 10

// memory is what this process knows of the revision of a fleet.
type memory struct {
	revision string
	// members are the groups of the clusters with which the revision was begun, by name; nil if it was not.
	members map[string]string
	// kept: the template is the newest that is kept, with members.
	kept bool
}

// remembered has a memory for each fleet. The zero value is ready for use.
type remembered struct {
	mu  sync.Mutex
	all map[types.UID]memory
}

// get returns what is known of a revision; nothing, with another revision, if it is another that is known.
func (r *remembered) get(fleet types.UID, revision string) memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.all[fleet]; m.revision == revision {
		return m
	}
	return memory{}
}

func (r *remembered) set(fleet types.UID, m memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[types.UID]memory{}
	}
	r.all[fleet] = m
}

// addSnapshot gives the members the groups of the snapshot. It matters only while some cluster is not through: a fleet at rest
// costs no read.
func (c *Controller) addSnapshot(ctx context.Context, s *scope) error {
	atRest := !slices.ContainsFunc(s.members, func(m *member) bool { return !s.current(m) || m.record.Phase != plan.Succeeded })
	if atRest {
		return nil
	}
	var err error
	if s.snapshot, err = c.snapshot(ctx, s); err != nil {
		return err
	}
	for _, m := range s.members {
		if group, known := s.snapshot[m.cluster.Name]; known {
			m.group = group
		}
	}
	return nil
}

// snapshot returns the groups of the clusters with which the present revision was begun, by name; nil if it was not. They are
// read once for each revision and process, because only this controller writes them.
func (c *Controller) snapshot(ctx context.Context, s *scope) (map[string]string, error) {
	if known := c.remembered.get(s.fleet.UID, s.revision); known.revision != "" {
		return known.members, nil
	}
	all, err := Templates(ctx, c.Live, c.Namespace, s.fleet)
	if c.preview && apierrors.IsForbidden(err) {
		return nil, nil // A user who looks at the fleet need not have the right to see them.
	}
	if err != nil {
		return nil, err
	}
	found := memory{revision: s.revision}
	if len(all) > 0 {
		// An older one has the clusters of an earlier rollout of the same templates.
		if newest := all[len(all)-1]; newest.Revision == s.revision {
			found.members, found.kept = newest.Members, newest.Members != nil
		}
	}
	c.remembered.set(s.fleet.UID, found)
	return found.members, nil
}

// present are the groups of the clusters that the fleet has now, by name.
func (s *scope) present() map[string]string {
	members := map[string]string{}
	for _, m := range s.members {
		if m.selected {
			members[m.cluster.Name] = m.group
		}
	}
	return members
}

// setMembers notes the clusters with which a revision is begun, if they are not too many.
func setMembers(kept *appsv1.ControllerRevision, members map[string]string) {
	byGroup := map[string][]string{}
	for name, group := range members {
		byGroup[group] = append(byGroup[group], name)
	}
	for _, names := range byGroup {
		slices.Sort(names)
	}
	text, err := json.Marshal(byGroup)
	if err != nil || len(text) > largestSnapshot {
		delete(kept.Annotations, v1alpha1.FleetMembersAnnotation)
		return
	}
	metav1.SetMetaDataAnnotation(&kept.ObjectMeta, v1alpha1.FleetMembersAnnotation, string(text))
}

// readMembers is the opposite of setMembers; nil if there is nothing that can be read.
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
