package fleet

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

var installPlacements sync.Once

// Cached implements Placements.
func (f *env) Cached() (client.Reader, error) {
	if f.placements == nil {
		return nil, placement.ErrNotInstalled
	}
	if f.placementsUnread {
		return nil, placement.ErrStarting
	}
	return f.placements, nil
}

// Live implements Placements.
func (f *env) Live() (client.Reader, error) { return f.Cached() }

// Watch implements Placements.
func (f *env) Watch(controller *builder.Builder, _ func(context.Context, v1alpha1.PlacementReference) []reconcile.Request) *builder.Builder {
	return controller
}

// decisions plays the placement controller of Open Cluster Management for one Placement.
type decisions struct {
	*env
	placement *clusterv1beta1.Placement
	api       client.Client
}

// newPlacedEnv is a fleet that a Placement chooses for, which has made no decision yet.
func newPlacedEnv(t *testing.T, clusters int, change func(*v1alpha1.MachineFleet)) *decisions {
	t.Helper()
	g := NewWithT(t)
	installPlacements.Do(func() { g.Expect(testenv.Placements.Install(t.Context(), testenv.Server().Client)).To(Succeed()) })
	known := scheme.New()
	g.Expect(placement.AddToScheme(known)).To(Succeed())
	api, err := client.New(testenv.Server().Config, client.Options{Scheme: known})
	g.Expect(err).NotTo(HaveOccurred())
	d := &decisions{api: api}
	f := newEnv(t, clusters, func(fleet *v1alpha1.MachineFleet) {
		if change != nil {
			change(fleet)
		}
		fleet.Spec.ClusterSelector = nil
		fleet.Spec.PlacementRef = &v1alpha1.PlacementReference{Namespace: "default", Name: fleet.Name}
	})
	d.env, f.placements = f, api
	return d
}

// place creates the Placement.
func (d *decisions) place() {
	d.T.Helper()
	d.placement = &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: d.fleet.Name}}
	d.Expect(d.api.Create(d.T.Context(), d.placement)).To(Succeed())
	d.T.Cleanup(func() { _ = d.api.Delete(d.T.Context(), d.placement) })
}

// decide writes one PlacementDecision.
func (d *decisions) decide(group string, clusters ...int) {
	d.T.Helper()
	name := d.fleet.Name + "-decision" + group
	decision := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{
		clusterv1beta1.PlacementLabel: d.placement.Name, clusterv1beta1.DecisionGroupNameLabel: group,
	}}}
	decision.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d.placement, schema.GroupVersionKind{
		Group: clusterv1beta1.GroupName, Version: clusterv1beta1.GroupVersion.Version, Kind: "Placement",
	})}
	d.Expect(client.IgnoreAlreadyExists(d.api.Create(d.T.Context(), decision))).To(Succeed())
	d.Expect(d.api.Get(d.T.Context(), client.ObjectKeyFromObject(decision), decision)).To(Succeed())
	decision.Status.Decisions = []clusterv1beta1.ClusterDecision{}
	for _, i := range clusters {
		decision.Status.Decisions = append(decision.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: d.clusters[i].Name})
	}
	d.Expect(d.api.Status().Update(d.T.Context(), decision)).To(Succeed())
}

// count writes how many clusters the Placement says it has chosen.
func (d *decisions) count(clusters int) {
	d.T.Helper()
	d.Expect(d.api.Get(d.T.Context(), client.ObjectKeyFromObject(d.placement), d.placement)).To(Succeed())
	d.placement.Status.NumberOfSelectedClusters = int32(clusters)
	if d.placement.Status.Conditions == nil {
		d.placement.Status.Conditions = []metav1.Condition{}
	}
	if d.placement.Status.DecisionGroups == nil {
		d.placement.Status.DecisionGroups = []clusterv1beta1.DecisionGroupStatus{}
	}
	d.Expect(d.api.Status().Update(d.T.Context(), d.placement)).To(Succeed())
}

func (d *decisions) expectStopped(reason string, parts ...string) {
	d.T.Helper()
	d.status()
	ready := d.ReadCondition(d.fleet, v1alpha1.ReadyCondition)
	d.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
	d.Expect(d.ReadCondition(d.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(reason))
	for _, part := range append(parts, "spec.placementRef") {
		d.Expect(d.fleet.Status.Message).To(ContainSubstring(part))
	}
}

func TestAPlacementChoosesTheClusters(t *testing.T) {
	d := newPlacedEnv(t, 3, inSteps(2, 0))
	d.place()
	d.expectStopped(v1alpha1.ReasonNoClusterSelected, "correct the Placement")
	d.decide("", 0, 1)
	d.count(2)
	d.settle()
	d.Expect(d.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, -"))
	d.Expect(d.status().Clusters.Selected).To(BeEquivalentTo(2))
	d.decide("", 0, 2)
	d.settle()
	d.upgrade("v1.37.0")
	d.settle()
	d.Expect(d.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.37.0"), "one that is not chosen any more is left as it was")
	d.Expect(d.ReadCondition(d.fleet, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue))
}

func TestAnUnknownPlacementBeginsNothing(t *testing.T) {
	d := newPlacedEnv(t, 2, nil)
	d.expectStopped(v1alpha1.ReasonPlacementNotFound, "create it")
	d.Expect(d.phases()).To(Equal("-, -"))
	d.placements = nil
	d.expectStopped(v1alpha1.ReasonPlacementsNotInstalled, "install them")
	d.Expect(d.phases()).To(Equal("-, -"))
}

// A Placement that is gone is no order, whatever the policy says of clusters that leave.
func TestAPlacementThatIsDeletedFreezesTheFleet(t *testing.T) {
	for _, how := range []string{"deleted", "uninstalled", "emptied"} {
		t.Run(how, func(t *testing.T) {
			d := newPlacedEnv(t, 2, deleting)
			d.place()
			d.decide("", 0, 1)
			d.count(2)
			d.settle()
			reason := v1alpha1.ReasonPlacementNotFound
			switch how {
			case "deleted":
				d.Expect(d.api.Delete(t.Context(), d.placement)).To(Succeed())
			case "uninstalled":
				d.placements, reason = nil, v1alpha1.ReasonPlacementsNotInstalled
			case "emptied":
				d.decide("")
				d.count(0)
				reason = v1alpha1.ReasonSelectionEmptied
			}
			d.edit(1, func(m *v1alpha1.MachineDeployment) { m.Spec.Replicas = new(int32(7)) })
			d.upgrade("v1.37.0")
			for range 3 {
				d.after(time.Hour)
			}
			d.expectStopped(reason)
			d.Expect(d.ReadCondition(d.fleet, v1alpha1.FrozenCondition)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", reason)))
			d.Expect(d.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"), "nothing is started or deleted")
			d.Expect(*d.deployment(1).Spec.Replicas).To(BeEquivalentTo(7), "frozen means frozen")
			d.Expect(d.fleet.Status.Clusters.Updated).To(BeZero())
			if how != "emptied" {
				d.Expect(d.fleet.Status.Clusters.Selected).To(BeEquivalentTo(2), "no cluster leaves a fleet whose choice is not known")
			}
		})
	}
}

// The decisions are spread over objects, which are written one after the other, and the number after them.
func TestNoClusterLeavesWhileDecisionsAreRewritten(t *testing.T) {
	d := newPlacedEnv(t, 4, both(inSteps(4, 0), deleting))
	d.place()
	d.decide("a", 0, 1)
	d.decide("b", 2, 3)
	d.count(4)
	d.settle()
	d.decide("a", 0) // 1 is about to go to b.
	d.upgrade("v1.37.0")
	d.after(time.Millisecond)
	d.Expect(d.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"), "nothing is started")
	d.Expect(d.ExpectReconciled(d.fleet).RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", rollout.SettleTime)))
	d.after(rollout.SettleTime / 2)
	d.Expect(d.refresh().Status.Message).NotTo(ContainSubstring("spec.placementRef"), "it has not lasted yet")
	d.after(rollout.SettleTime / 2)
	d.expectStopped(v1alpha1.ReasonPlacementDecisionsIncomplete, "placement controller")
	d.Expect(d.fleet.Status.Clusters.Selected).To(BeEquivalentTo(4))
	d.Expect(d.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	d.decide("b", 1, 2, 3)
	d.settle()
	d.Expect(d.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.37.0"))

	// 0 changes places with 3, which leaves: in between there are as many as before, and 0 is not among them.
	d.decide("a", 1)
	d.count(3)
	d.ExpectReconciled(d.fleet)
	d.after(rollout.SettleTime - 1)
	d.Expect(d.deployment(0)).NotTo(BeNil(), "it may be on its way to another object")
	d.decide("b", 0, 2)
	d.ExpectReconciled(d.fleet)
	d.after(rollout.SettleTime - 1)
	d.Expect(d.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.37.0"))
	d.after(1)
	d.Expect(d.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.37.0, -"), "one that has really left is removed, as the policy says")
}

func TestDecisionGroupsAreGroups(t *testing.T) {
	groups := func(fleet *v1alpha1.MachineFleet) {
		inSteps(2, 0)(fleet)
		fleet.Spec.Groups = []v1alpha1.MachineFleetGroup{{Name: "canary"}, {Name: "none"}}
	}
	d := newPlacedEnv(t, 3, groups)
	d.place()
	d.decide("canary", 2)
	d.decide("rest", 0, 1)
	d.count(3)
	d.ExpectReconciled(d.fleet)
	d.Expect(d.phases()).To(Equal("-, -, Progressing v1.36.2"), "the Placement's group canary is the first")
	d.Expect(rollout.ReadRecord(d.deployment(2)).Group).To(Equal("canary"))
	d.Expect(d.status().Message).To(And(ContainSubstring("spec.groups[none]"), Not(ContainSubstring("spec.groups[canary]"))))
	preview, err := rollout.NewPreview(t.Context(), d.api, d.refresh(), d.Clock.Now())
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(preview.Problem).To(BeNil())
	d.Expect(slices.IndexFunc(preview.Members, func(m rollout.ClusterPreview) bool { return m.Group == "canary" && m.Wave == 1 })).To(Equal(2))
}

func TestNothingIsSaidBeforeThePlacementsAreRead(t *testing.T) {
	d := newPlacedEnv(t, 1, nil)
	d.place()
	d.decide("", 0)
	d.count(1)
	d.settle()
	before := d.refresh().ResourceVersion
	d.placementsUnread = true
	d.count(0)
	next, err := d.logic.Reconcile(t.Context(), d.refresh())
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(next.After).To(BeZero())
	d.Expect(d.refresh().ResourceVersion).To(Equal(before))
}

func TestClustersAreChosenInExactlyOneWay(t *testing.T) {
	f := newEnv(t, 0, nil)
	both := f.refresh().DeepCopy()
	both.Spec.PlacementRef = &v1alpha1.PlacementReference{Namespace: "default", Name: "x"}
	f.Expect(f.Client.Update(t.Context(), both)).To(MatchError(ContainSubstring("set exactly one of clusterSelector and placementRef")))
	both.Spec.ClusterSelector, both.Spec.PlacementRef = nil, nil
	f.Expect(f.Client.Update(t.Context(), both)).To(MatchError(ContainSubstring("set exactly one of clusterSelector and placementRef")))
	both = f.refresh().DeepCopy()
	both.Spec.Groups = []v1alpha1.MachineFleetGroup{{Name: "canary"}}
	f.Expect(f.Client.Update(t.Context(), both)).To(MatchError(ContainSubstring("spec.groups: each needs a clusterSelector")))
}
