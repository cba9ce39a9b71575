package waves

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

func (w *world) expectSaid(t *testing.T, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(w.message(), text) {
			t.Fatalf("want %q in %s", text, w.message())
		}
	}
}

func (w *world) settle(t *testing.T) {
	t.Helper()
	w.expectStarted(t)
	w.expectSaid(t, v1alpha1.ReasonRolloutComplete)
}

func TestNothingIsRolledOutToWhatWasMadeWithTheVersion(t *testing.T) {
	w := newWorld(3, 1, 0)
	w.settle(t)
	w.s.Members = append(w.s.Members, newMember(3))
	w.settle(t)
	if w.s.Set.Status.Rollout.Started != nil || len(w.s.Set.Status.Rollout.History) > 0 {
		t.Fatal("what did not start is kept")
	}
}

func TestAVersionReachesOneClusterAfterTheOther(t *testing.T) {
	w := newWorld(3, 1, 0)
	w.settle(t)
	w.raise(versionNow)
	w.expectStarted(t, 0)
	w.expectStarted(t)
	w.answer()
	w.expectStarted(t, 1)
	w.answer()
	w.expectStarted(t, 2)
	w.expectSaid(t, v1alpha1.ReasonRollingOut, "2 of 3 clusters have v1.36, 1 in progress")
	w.answer()
	w.expectStarted(t)
	w.settle(t)
	history := w.s.Set.Status.Rollout.History
	if len(history) != 1 || history[0].Revision != versionNow || history[0].CompletedAt == nil || history[0].Updated != 3 {
		t.Fatalf("history: %+v", history)
	}
}

func TestARolloutStopsWhenOneIsRefused(t *testing.T) {
	w := newWorld(3, 1, 0)
	w.settle(t)
	w.raise(versionNow)
	w.expectStarted(t, 0)
	w.s.Members[0].setReady(false, v1alpha1.ReasonVersionNotSupported)
	w.expectStarted(t)
	w.expectStarted(t)
	w.expectSaid(t, v1alpha1.ReasonTooManyFailures, "failed: s-0")
	w.raise(versionBefore) // The host never ran the version, so the set may go back.
	w.expectStarted(t, 0)
	w.answer()
	w.expectStarted(t)
	w.settle(t)
}

func TestSilenceIsNoSuccess(t *testing.T) {
	silent := freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonAgentSilent, Message: "the host is silent"}
	for name, silence := range map[string]func(*world){
		"of the host": func(w *world) { w.s.Members[0].Host = silent },
		"of the host, since the hub was started": func(w *world) {
			w.s.Members[0].Host = freeze.Verdict{Frozen: true, Passing: true, Reason: v1alpha1.ReasonStarting}
		},
		"of the cluster's agent": func(w *world) {
			w.s.Members[0].Agent = freeze.Verdict{Frozen: true, Passing: true, Reason: v1alpha1.ReasonStarting}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2, 1, 0)
			w.settle(t)
			w.raise(versionNow)
			w.expectStarted(t, 0)
			w.answer()
			silence(w)
			for range 3 {
				w.expectStarted(t)
			}
			w.s.Members[0].Host, w.s.Members[0].Agent = freeze.Verdict{}, freeze.Verdict{}
			w.answer()
			w.expectStarted(t, 1)
		})
	}
}

func TestAControlPlaneThatStaysAwayTimesOut(t *testing.T) {
	w := newWorld(2, 1, 0)
	w.s.Set.Spec.Rollout.RolloutStrategy.Progressive.ProgressDeadline = "5s"
	w.settle(t)
	w.raise(versionNow)
	w.expectStarted(t, 0)
	w.s.Members[0].setReady(false, v1alpha1.ReasonControlPlaneFailed)
	w.s.Members[0].Agent = freeze.Verdict{Frozen: true, Passing: true}
	for range 7 {
		w.expectStarted(t)
	}
	w.expectSaid(t, v1alpha1.ReasonTooManyFailures, "failed: s-0")
}

func TestAnApprovalAndAWindowAreWaitedFor(t *testing.T) {
	w := newWorld(2, 2, 0)
	w.s.Members[1].Cluster.Labels = map[string]string{"stage": "production"}
	w.s.Set.Spec.Rollout.Groups = []v1alpha1.MachineFleetGroup{{
		Name: "production", Approval: v1alpha1.GroupApprovalRequired, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "production"}},
	}}
	w.settle(t)
	w.raise(versionNow)
	w.expectStarted(t, 0)
	w.expectSaid(t, "rollout approve simulatedclusterset s --group production")
	w.answer()
	w.expectStarted(t)
	w.expectStarted(t)
	w.expectSaid(t, v1alpha1.ReasonAwaitingApproval)

	// Neither the group nor the label can be taken away to go past the gate.
	groups := w.s.Set.Spec.Rollout.Groups
	w.s.Set.Spec.Rollout.Groups = nil
	w.s.Set.Generation++
	w.expectStarted(t)
	w.s.Set.Spec.Rollout.Groups = groups
	w.s.Members[1].Cluster.Labels = nil
	w.expectStarted(t)

	approval := plan.Approval{Fleet: "set", Revision: versionNow, Rollout: 1, Group: "production"}
	w.s.Approvals = []Approval{{Approval: approval}}
	w.expectStarted(t) // It is for another rollout.
	approval.Rollout = w.s.Set.Status.Rollout.Rollout
	w.s.Approvals = []Approval{{Approval: approval, By: "jo"}}
	w.s.Set.Spec.Rollout.MaintenanceExclusions = []v1alpha1.MaintenanceExclusion{{Name: "now", Start: "2020-01-01", End: "2040-01-01"}}
	w.expectStarted(t)
	w.expectSaid(t, v1alpha1.ReasonOutsideMaintenanceWindow)
	w.s.Set.Spec.Rollout.MaintenanceExclusions = nil
	w.expectStarted(t, 1)
	if approvals := w.s.Set.Status.Rollout.History[0].Approvals; len(approvals) != 1 || approvals[0] != "production by jo" {
		t.Fatalf("approvals: %q", approvals)
	}
}

func TestPauseFreezeAndAbortStartNothing(t *testing.T) {
	for reason, change := range map[string]func(*world){
		v1alpha1.ReasonPaused:       func(w *world) { w.s.Set.Spec.Rollout.Paused = true },
		v1alpha1.ReasonManualFreeze: func(w *world) { w.s.Frozen = freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonManualFreeze} },
		v1alpha1.ReasonAborted:      func(w *world) { w.s.Set.Spec.Rollout.AbortedRevision = versionNow },
		v1alpha1.ReasonInvalidFleet: func(w *world) { w.s.Set.Spec.Rollout.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.Progressive} },
	} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(2, 1, 0)
			w.settle(t)
			w.raise(versionNow)
			change(w)
			w.expectStarted(t)
			w.expectSaid(t, reason)
		})
	}
}

func TestAControlPlaneDoesNotGoBack(t *testing.T) {
	w := newWorld(2, 1, 0)
	w.s.Set.Spec.Rollout.Groups = []v1alpha1.MachineFleetGroup{{Name: "all", Approval: v1alpha1.GroupApprovalRequired, ClusterSelector: &metav1.LabelSelector{}}}
	w.settle(t)
	w.raise("v1.34")
	w.expectStarted(t)
	w.expectSaid(t, v1alpha1.ReasonClustersBlocked, "cannot go back from v1.35 to v1.34")
	if failures := w.s.Set.Status.Rollout.Failures; len(failures) != 2 || failures[0].Reason != v1alpha1.ReasonControlPlaneDowngrade {
		t.Fatalf("failures: %+v", failures)
	}
	w.raise(versionBefore)
	w.settle(t)
}

func TestARecordOfAnotherSetOrObjectDoesNotCount(t *testing.T) {
	w := newWorld(2, 1, 0)
	w.settle(t)
	w.raise(versionNow)
	w.expectStarted(t, 0)
	w.answer()
	w.expectStarted(t, 1)
	// It would say that more have failed than may.
	copied := strings.Replace(w.s.Members[0].One.Annotations[v1alpha1.FleetRecordAnnotation], `"Succeeded"`, `"Failed"`, 1)
	other := newMember(2)
	other.One.Annotations = map[string]string{v1alpha1.FleetRecordAnnotation: copied}
	w.s.Members = append(w.s.Members, other)
	w.answer()
	w.expectStarted(t, 2)
}

func TestARetryStartsAgainByTheCurrentSpec(t *testing.T) {
	w := newWorld(2, 1, 0)
	w.s.Set.Spec.Rollout.RolloutStrategy.Progressive.ProgressDeadline = "2s"
	w.settle(t)
	w.raise(versionNow)
	w.expectStarted(t, 0)
	w.s.Members[0].setReady(false, v1alpha1.ReasonControlPlaneFailed)
	for range 4 {
		w.expectStarted(t)
	}
	before := w.s.Set.Status.Rollout.Rollout
	w.s.Set.Spec.Rollout.RetriedAt = &metav1.Time{Time: w.s.Now.Truncate(time.Second)}
	w.s.Set.Generation++
	w.expectStarted(t, 0)
	if now := w.s.Set.Status.Rollout.Rollout; now == before {
		t.Fatal("a retry is a rollout of its own")
	}
}
