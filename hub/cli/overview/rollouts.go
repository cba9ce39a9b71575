package overview

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
)

// Rollout is how far a MachineFleet or SimulatedClusterSet is with a revision that not all of its clusters have. It is part of the JSON that
// "status -o json" prints.
type Rollout struct {
	// kind is MachineFleet or SimulatedClusterSet, and name that of the object.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// revision is what is rolled out: that of the template, or the version of the control plane.
	Revision string `json:"revision"`
	// currentWave and waves number the waves from 1; 0 if there are none.
	CurrentWave int32 `json:"currentWave"`
	Waves       int32 `json:"waves"`
	// reason is that of the condition Progressing: what the rollout does, or waits for.
	Reason string `json:"reason"`
	// clusters counts the clusters by how far they are.
	Clusters v1alpha1.MachineFleetClusters `json:"clusters"`
}

// newRollout is how far an object is; nil for one without clusters, whose rollout is complete, or of whose spec nothing is known.
func newRollout(kind string, object client.Object, observed int64, conditions []metav1.Condition, of Rollout) *Rollout {
	progressing := meta.FindStatusCondition(conditions, v1alpha1.ProgressingCondition)
	counts := &of.Clusters
	if progressing == nil || observed != object.GetGeneration() || object.GetDeletionTimestamp() != nil || counts.Selected == 0 ||
		progressing.Reason == v1alpha1.ReasonRolloutComplete || counts.Updated == counts.Selected {
		return nil
	}
	of.Kind, of.Name, of.Reason = kind, object.GetName(), progressing.Reason
	return &of
}

// rolloutsIn are those of the objects of a list that are not complete, in its order.
func rolloutsIn(list client.ObjectList) (found []Rollout) {
	add := func(one *Rollout) {
		if one != nil {
			found = append(found, *one)
		}
	}
	switch list := list.(type) {
	case *v1alpha1.MachineFleetList:
		for i := range list.Items {
			status := &list.Items[i].Status
			add(newRollout(health.MachineFleet, &list.Items[i], status.ObservedGeneration, status.Conditions,
				Rollout{Revision: status.Revision, CurrentWave: status.CurrentWave, Waves: status.Waves, Clusters: status.Clusters}))
		}
	case *v1alpha1.SimulatedClusterSetList:
		for i := range list.Items {
			status := &list.Items[i].Status
			at := &status.Rollout
			add(newRollout(health.SimulatedClusterSet, &list.Items[i], status.ObservedGeneration, status.Conditions,
				Rollout{Revision: at.Revision, CurrentWave: at.CurrentWave, Waves: at.Waves, Clusters: at.Clusters}))
		}
	}
	return found
}

// Text is the rollout without the name of its object.
func (r *Rollout) Text() string {
	counts := &r.Clusters
	parts := []string{fmt.Sprintf("wave %d of %d", r.CurrentWave, r.Waves), fmt.Sprintf("%d of %d updated", counts.Updated, counts.Selected)}
	if r.Waves == 0 {
		parts = parts[1:]
	}
	for _, part := range []struct {
		n    int32
		what string
	}{
		{counts.Progressing, "in progress"}, {counts.Soaking, "soaking"}, {counts.Waiting, "waiting"}, {counts.Held, "held"}, {counts.Failed, "failed"},
		{counts.RollingBack, "rolling back"}, {counts.RolledBack, "rolled back"}, {counts.Blocked, "blocked"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if r.Reason != v1alpha1.ReasonRollingOut {
		parts = append(parts, r.Reason)
	}
	return strings.Join(parts, ", ")
}
