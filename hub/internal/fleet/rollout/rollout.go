package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// Rollout is the record of one rollout of a revision, for a person to read. Times are in UTC and have whole seconds.
type Rollout struct {
	// Number is that of the template when the rollout started, and Revision its hash.
	Number   int64  `json:"number"`
	Revision string `json:"revision"`
	Started  string `json:"started"`
	// Superseded is when the fleet got another template; empty while it has this one.
	Superseded string `json:"superseded,omitempty"`
	// Turns are the changes of the fleet's Progressing condition.
	Turns []Turn `json:"turns,omitempty"`
	// Approvals are those by which groups were started.
	Approvals []Approved `json:"approvals,omitempty"`
	// Clusters are those in which the revision was started, by name.
	Clusters map[string]ClusterRollout `json:"clusters,omitempty"`
	// Omitted is how many clusters that succeeded are left out, because the record would be too large.
	Omitted int `json:"omitted,omitempty"`

	// Object keeps the record; nil before it is written.
	Object *appsv1.ControllerRevision `json:"-"`
}

// Turn is a moment at which a rollout changed its course.
type Turn struct {
	At      string `json:"at"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// ClusterRollout is what happened to a rollout in one cluster.
type ClusterRollout struct {
	Group   string `json:"group,omitempty"`
	Started string `json:"started,omitempty"`
	Soaked  string `json:"soaked,omitempty"`
	// Phase is how far the cluster came, and Since when it came there.
	Phase plan.Phase `json:"phase"`
	Since string     `json:"since"`
	// Failure is why it failed. It stays when the cluster is rolled back, tried again, or healthy again.
	Failure string `json:"failure,omitempty"`
	// Left is when the cluster left the fleet.
	Left string `json:"left,omitempty"`
}

// Approved is the approval of a group.
type Approved struct {
	Group string `json:"group"`
	// By is the name of the user who gave it.
	By string `json:"by"`
	// At is when it was given.
	At string `json:"at"`
	// Approval is the name of the FleetApproval; empty in the record of an older hub.
	Approval string `json:"approval,omitempty"`
	// Rollout is the number of the rollout that was approved.
	Rollout int64 `json:"rollout,omitempty"`
	// Claimed: the API server did not check the name of the user, because the admission policy was not there when the approval was given.
	Claimed bool `json:"claimed,omitempty"`
	// TakenBack is when the approval was found deleted; empty while it is there, or was when the rollout ended.
	TakenBack string `json:"takenBack,omitempty"`
}

// Rollouts reads the records of a fleet's rollouts, the oldest first.
func Rollouts(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet) ([]Rollout, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := reader.List(ctx, list, client.InNamespace(v1alpha1.HubNamespace), client.MatchingLabels{v1alpha1.FleetRolloutLabel: fleet.Name}); err != nil {
		return nil, fmt.Errorf("listing the rollouts of machine fleet %s: %w", fleet.Name, err)
	}
	var all []Rollout
	for i := range list.Items {
		r := Rollout{Object: &list.Items[i]}
		if metav1.IsControlledBy(r.Object, fleet) && json.Unmarshal([]byte(r.Object.Annotations[v1alpha1.FleetRolloutAnnotation]), &r) == nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Rollout) int { return cmp.Compare(a.Object.Revision, b.Object.Revision) })
	return all, nil
}

// FormatTime is a moment as a record has it.
func FormatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// StampOf is the moment of a field of a cluster's record; empty if it has none.
func StampOf(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return ""
	}
	return FormatTime(at)
}
