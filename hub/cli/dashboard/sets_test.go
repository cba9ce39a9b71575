package dashboard

import (
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// newSet makes a set with two clusters on host c1 that are rolled to v1.37: the first soaks, the second waits.
func newSet(now time.Time) []client.Object {
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "sims", UID: "set", Generation: 2}}
	set.Spec.Template.Spec.Versions.ControlPlane = "v1.37"
	set.Spec.Rollout.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{
		RolloutConfig: ocm.RolloutConfig{MinSuccessTime: metav1.Duration{Duration: time.Hour}}, MaxConcurrency: intstr.FromInt32(1)}}
	set.Status = v1alpha1.SimulatedClusterSetStatus{ObservedGeneration: 2, Conditions: append([]metav1.Condition{
		{Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRollingOut, Message: "wave 1 of 1"}}, ready...)}
	set.Status.Rollout = v1alpha1.SimulatedClusterSetRolloutStatus{Revision: "v1.37", Rollout: 2, CurrentWave: 1, Waves: 1,
		Clusters: v1alpha1.MachineFleetClusters{Selected: 2, Soaking: 1, Waiting: 1},
		History:  []v1alpha1.SimulatedClusterSetRolloutRecord{{Revision: "v1.37", Rollout: 2, StartedAt: metav1.NewTime(now.Add(-time.Hour))}}}
	objects := []client.Object{set, newCluster("c1")}
	for i, name := range []string{"sims-0", "sims-1"} {
		one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: name, UID: types.UID(name), Generation: 1,
			OwnerReferences: []metav1.OwnerReference{{Kind: "SimulatedClusterSet", Name: "sims", UID: "set", Controller: new(true)}}}}
		one.Spec.Versions.ControlPlane = "v1.36"
		if i == 0 {
			one.Spec.Versions.ControlPlane = "v1.37"
			one.Annotations = map[string]string{v1alpha1.FleetRecordAnnotation: rollout.NewRecord(set,
				plan.Record{Revision: "v1.37", Phase: plan.Soaking, Since: now.Add(-time.Minute)}, "").BindTo(one).AnnotationValue()}
		}
		one.Status = v1alpha1.SimulatedClusterStatus{ObservedGeneration: 1, Versions: &v1alpha1.ObservedControlPlaneVersions{ControlPlane: one.Spec.Versions.ControlPlane}}
		for _, kind := range []string{v1alpha1.ReadyCondition, v1alpha1.ControlPlaneReadyCondition} {
			one.Status.Conditions = append(one.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, ObservedGeneration: 1})
		}
		objects = append(objects, one, newCluster(name))
	}
	return objects
}

// Claim: The dashboard shows a SimulatedClusterSet in its waves, as a fleet: who is where, how long it soaks, and what it waits for. Broken: clusters of another set shown; a cluster without its turn called updated.
func TestSetsAreShownInWaves(t *testing.T) {
	s := newSite(t)
	s.readOnly = true
	s.put(newSet(s.clock.Now())...)
	stranger := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "stranger"}}
	s.put(stranger)
	s.Expect(s.show("/sets")).To(And(ContainSubstring(`sets/sims">sims</a>`), ContainSubstring("1/1"), ContainSubstring("v1.37")))
	text := s.show("/sets/sims")
	s.Expect(text).To(And(ContainSubstring("Wave 1: current"), ContainSubstring("Soaking"), MatchRegexp(`5\dm left`), ContainSubstring("waits for its turn"),
		ContainSubstring("RollingOut: wave 1 of 1"), ContainSubstring(`clusters/sims-1">sims-1</a>`), ContainSubstring("bar-soak"), Not(ContainSubstring("stranger"))))
	s.Expect(s.ask(http.MethodGet, "/sets/nope", nil).Code).To(Equal(404))
	s.put(newCluster("c1", frozenSince(s.clock.Now(), v1alpha1.ReasonManualFreeze, "storage maintenance")))
	s.Expect(s.show("/sets/sims")).To(ContainSubstring("storage maintenance"))
	s.store.noteBroken(health.SimulatedCluster, apierrors.NewForbidden(schema.GroupResource{Resource: "simulatedclusters"}, "", errors.New("no")))
	s.Expect(s.show("/sets/sims")).To(And(ContainSubstring("SimulatedClusters are not known"), Not(ContainSubstring("waits for its turn"))))
	s.store.noteBroken(health.SimulatedClusterSet, apierrors.NewForbidden(schema.GroupResource{Resource: "simulatedclustersets"}, "", errors.New("no")))
	s.Expect(s.show("/sets")).To(And(ContainSubstring("SimulatedClusterSets are not known"), Not(ContainSubstring("There is no"))))
}

// Claim: A dashboard of one namespace says what it does not show, calls no kind of the namespace unchecked, and shows its objects without its Cluster. Broken: the fleet called healthy; kinds outside named as unchecked; an error in place of the tree.
func TestOneNamespace(t *testing.T) {
	s := newSite(t)
	s.store.scope = overview.Scope{Namespace: "c1"}
	for _, kind := range health.Kinds {
		if _, inside := s.store.scope.Options(kind); !inside {
			s.store.kinds[kind.Kind].outside, s.store.kinds[kind.Kind].unread = true, errors.New(s.store.scope.Describe())
		}
	}
	*s.hub.Flags.Namespace = "c1"
	set, machines := newMachines("c1", 1)
	s.put(newCluster("c1"), newDeployment("c1"), set, machines[0])
	s.Expect(s.show("/")).To(And(ContainSubstring("Namespace c1 is healthy"), ContainSubstring("Only namespace c1 is shown"), ContainSubstring("Not seen: all other namespaces"),
		Not(ContainSubstring("not checked")), Not(ContainSubstring("The fleet is healthy"))))
	s.Expect(s.show("/fleets")).To(And(ContainSubstring("MachineFleets are not known: only namespace c1 is shown"), Not(ContainSubstring("There is no"))))
	s.store.noteBroken(health.Cluster, apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "c1", errors.New("no")))
	s.clock.Step(oldest)
	s.store.contact.heard = s.clock.Now()
	s.Expect(s.show("/")).To(And(ContainSubstring("Whether namespace c1 is healthy is unknown: you may not list: Cluster c1"), ContainSubstring(`clusters/c1">c1</a>`),
		ContainSubstring("you may not read this Cluster"), Not(ContainSubstring("not checked"))))
	s.Expect(s.show("/clusters/c1")).To(And(ContainSubstring(`<span class="kind">MachineDeployment</span> workers`), ContainSubstring("workers-1-00000")))
}
