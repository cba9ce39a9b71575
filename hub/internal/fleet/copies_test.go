package fleet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// exported is what kubectl get -o json gives, without what the API server sets, for another cluster.
func (f *env) exported(from, to int, everywhere bool) *v1alpha1.MachineDeployment {
	f.T.Helper()
	old := f.deployment(from)
	old.ObjectMeta = metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name, Labels: old.Labels, Annotations: old.Annotations}
	old.Status = v1alpha1.MachineDeploymentStatus{}
	text, err := json.Marshal(old)
	f.Expect(err).NotTo(HaveOccurred())
	found := &v1alpha1.MachineDeployment{}
	if everywhere { // By sed over the file.
		text = []byte(strings.ReplaceAll(string(text), f.clusters[from].Name, f.clusters[to].Name))
	}
	f.Expect(json.Unmarshal(text, found)).To(Succeed())
	found.Namespace, found.Spec.ClusterName = f.clusters[to].Name, f.clusters[to].Name
	return found
}

// legacy takes from the record of a cluster what older hubs did not write, as such a hub.
func (f *env) legacy(i int, manager client.FieldOwner) {
	f.T.Helper()
	d := f.deployment(i)
	old := *rollout.ReadRecord(d)
	old.Namespace, old.Deployment = "", ""
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.FleetRecordAnnotation: old.AnnotationValue()}}})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.Client.Patch(f.T.Context(), d, client.RawPatch(types.MergePatchType, patch), manager)).To(Succeed())
}

// Claim: A fleet's record belongs to one object; copies are not the fleet's. Broken: only the fleet's UID is compared; who wrote an old record is not asked. Also: TestRecordsOfAnOlderHubAreCompleted.
// Edge case: A copied MachineDeployment was the fleet's. Also: TestARestoredMachineDeploymentIsNotTakenForTheOld, TestRecordsOfAnOlderHubAreCompleted.
func TestACopyOfAMachineDeploymentIsNotTheFleets(t *testing.T) {
	for name, test := range map[string]struct {
		everywhere, legacy bool
		change             func(*v1alpha1.MachineDeployment)
	}{
		"namespace and clusterName changed":             {change: func(*v1alpha1.MachineDeployment) {}},
		"the name of the cluster changed all through":   {everywhere: true, change: func(*v1alpha1.MachineDeployment) {}},
		"of an older hub":                               {legacy: true, change: func(*v1alpha1.MachineDeployment) {}},
		"of an older hub, the name changed all through": {everywhere: true, legacy: true, change: func(*v1alpha1.MachineDeployment) {}},
		"of an older hub, without what was applied": {legacy: true, change: func(d *v1alpha1.MachineDeployment) {
			delete(d.Annotations, v1alpha1.FleetAppliedAnnotation)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 2, nil)
			f.label(1, testLabel, "elsewhere")
			f.settle()
			if test.legacy {
				f.legacy(0, rollout.FieldOwner)
			}
			copied := f.exported(0, 1, test.everywhere)
			copied.Spec.Template.Spec.Versions.Kubelet = "v1.30.0"
			test.change(copied)
			f.ExpectApplied(copied)
			f.label(1, testLabel, f.fleet.Name)
			f.settle()
			f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[1].Name), HaveField("Reason", v1alpha1.ReasonNotAdopted),
				HaveField("Message", ContainSubstring("set spec.adopt to take it over")))))
			f.Expect(f.deployment(1).Spec).To(Equal(copied.Spec), "nothing of it is overwritten")
			f.Expect(f.fleet.Status.Clusters.Updated).To(BeEquivalentTo(1), "its time and group are those of the other")

			before := f.Clock.Now()
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Adopt = true })
			f.ExpectReconciled(f.fleet)
			adopted := rollout.OwnRecord(f.fleet, f.deployment(1))
			f.Expect(adopted).NotTo(BeNil())
			f.Expect(adopted.Phase).To(Equal(plan.Progressing), "it starts like any other")
			f.Expect(adopted.PlannedRecord().Since).NotTo(BeTemporally("<", before))
			f.Expect(adopted.Group).To(BeEmpty())
			f.Expect(adopted.Deployment).To(Equal(f.deployment(1).UID))
		})
	}
}

// A backup restores the object under another UID: what its record says of Machines is about those of the old one.
func TestARestoredMachineDeploymentIsNotTakenForTheOld(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.settle()
	restored := f.exported(0, 0, false)
	f.ExpectDeleted(f.deployment(0))
	f.Eventually(func() *v1alpha1.MachineDeployment { return f.deployment(0) }).WithTimeout(time.Minute).Should(BeNil())
	f.ExpectApplied(restored)
	f.Expect(f.status().Failures).To(ConsistOf(HaveField("Reason", v1alpha1.ReasonNotAdopted)))
}

// The records of an older hub name no object. An upgrade of the hub completes them, and blocks no cluster, nor changes a spec.
func TestRecordsOfAnOlderHubAreCompleted(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.settle()
	f.legacy(0, rollout.FieldOwner)
	f.legacy(1, rollout.FieldOwner)
	first := f.deployment(0)
	f.restart()
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Failures).To(BeEmpty())
	for i := range f.clusters {
		f.Expect(rollout.ReadRecord(f.deployment(i)).Deployment).To(Equal(f.deployment(i).UID))
		f.Expect(rollout.ReadRecord(f.deployment(i)).Namespace).To(Equal(f.clusters[i].Name))
	}
	f.Expect(f.deployment(0).Generation).To(Equal(first.Generation))
	f.Expect(rollout.ReadRecord(f.deployment(0)).Since).To(Equal(rollout.ReadRecord(first).Since))
	f.Expect(f.Events()).NotTo(ContainElement(ContainSubstring("Corrected")))
	f.settle()
	f.after(time.Hour)
	f.Expect(f.Writes.Total()).To(BeZero(), "once")
}

// Claim: A fleet adopts no downgrade without `allowDowngrade`. Broken: only what the fleet gave is compared.
// Edge case: Adoption downgraded.
func TestAdoptingDoesNotDowngrade(t *testing.T) {
	for name, test := range map[string]struct {
		kubelet, server, wanted string
		refused                 bool
	}{
		"a newer kubelet":          {"v1.37.1", "v1.37.1", "v1.36.2", true},
		"without the v":            {"1.37.1", "v1.37.1", "v1.36.2", true},
		"newer by a patch":         {"v1.36.3", "v1.37.1", "v1.36.2", true},
		"that of the cluster":      {"", "v1.37.1", "v1.36.2", true},
		"the same":                 {"v1.36.2", "v1.37.1", "v1.36.2", false},
		"an older one":             {"v1.35.0", "v1.37.1", "v1.36.2", false},
		"a release of a candidate": {"v1.36.2", "v1.37.1", "v1.36.2-rc.1", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 1, func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.Adopt, fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = true, test.wanted
			})
			cluster := f.cluster(0)
			cluster.Status.KubernetesVersion = test.server
			f.ExpectStatusApplied(cluster)
			labels := map[string]string{"app": "x"}
			there := &v1alpha1.MachineDeployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: f.fleet.Name},
				Spec: v1alpha1.MachineDeploymentSpec{
					ClusterName: cluster.Name, Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
				},
			}
			there.Spec.Template.Spec.Versions.Kubelet = test.kubelet
			f.ExpectApplied(there)
			f.ExpectReconciled(f.fleet)
			if !test.refused {
				f.Expect(f.phases()).To(HavePrefix("Progressing"))
				return
			}
			f.Expect(f.phases()).To(Equal("foreign"))
			f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Reason", v1alpha1.ReasonKubeletDowngrade),
				HaveField("Message", And(ContainSubstring("versions.kubelet: "+test.wanted), ContainSubstring("set spec.allowDowngrade"))))))
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AllowDowngrade = true })
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(Equal("Progressing " + test.wanted))
		})
	}
}

// Claim: A fleet adopts Machines that say in another way which provider makes them. Broken: a reference to a class beside the value that was there.
func TestAdoptingReplacesTheProviderConfig(t *testing.T) {
	value := v1alpha1.ProviderConfig{Provider: "fake", Value: &runtime.RawExtension{Raw: []byte(`{"size":"large"}`)}}
	class := v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "small"}}
	for name, test := range map[string]struct{ before, wanted v1alpha1.ProviderConfig }{"a class": {value, class}, "a value": {class, value}} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 1, func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.Adopt, fleet.Spec.Template.Spec.Template.Spec.ProviderConfig = true, test.wanted
			})
			cluster, labels := f.cluster(0), map[string]string{"app": "x"}
			there := &v1alpha1.MachineDeployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: f.fleet.Name},
				Spec: v1alpha1.MachineDeploymentSpec{
					ClusterName: cluster.Name, Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
				},
			}
			there.Spec.Template.Spec.ProviderConfig = test.before
			f.ExpectApplied(there)
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(HavePrefix("Progressing"))
			adopted := &v1alpha1.MachineDeployment{}
			f.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(there), adopted)).To(Succeed())
			f.Expect(adopted.Spec.Template.Spec.ProviderConfig).To(Equal(test.wanted))
		})
	}
}
