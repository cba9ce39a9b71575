package cli_test

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func (f *env) workers() *v1alpha1.MachineDeployment {
	f.T.Helper()
	deployment := &v1alpha1.MachineDeployment{}
	f.Expect(f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: f.name, Name: "workers"}, deployment)).To(Succeed())
	return deployment
}

// revisions plays the hub: it makes a MachineSet for each of the kubelet versions, the last of which is current.
func (f *env) revisions(versions ...string) {
	f.T.Helper()
	deployment := f.workers()
	for i, version := range versions {
		template := deployment.Spec.Template.DeepCopy()
		template.Spec.Versions.Kubelet = version
		deployment.Spec.Template = *template.DeepCopy()
		hash := fmt.Sprintf("h%d", i+1)
		template.Metadata.Labels[v1alpha1.MachineTemplateHashLabel] = hash
		f.ExpectApplied(&v1alpha1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: f.name, Name: "workers-" + hash, Annotations: map[string]string{v1alpha1.RevisionAnnotation: fmt.Sprint(i + 1)},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))},
			},
			Spec: v1alpha1.MachineSetSpec{ClusterName: f.name, Template: *template, Selector: v1alpha1.MachineSelector{MatchLabels: template.Metadata.Labels}},
		})
	}
	deployment.Annotations = map[string]string{v1alpha1.RevisionAnnotation: fmt.Sprint(len(versions))}
	f.ExpectApplied(deployment)
}

func TestUndoTakesTheTemplateOfARevision(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.revisions("v1.34.1", "v1.35.2", "v1.36.2")
	f.Expect(f.succeeds("rollout undo machinedeployment workers -n NAME")).To(ContainSubstring("rolled back to revision 2"))
	deployment := f.workers()
	f.Expect(deployment.Spec.Template.Spec.Versions.Kubelet).To(Equal("v1.35.2"))
	f.Expect(deployment.Spec.Template.Metadata.Labels).To(Equal(map[string]string{"pool": "workers"}), "without the label that the hub adds")
	f.Expect(deployment.Annotations).To(HaveKeyWithValue(v1alpha1.RollbackAnnotation, "2"))
	f.Expect(f.succeeds("rollout undo machinedeployment/workers -n NAME --to-revision 1")).To(ContainSubstring("rolled back to revision 1"))
	f.Expect(f.workers().Spec.Template.Spec.Versions.Kubelet).To(Equal("v1.34.1"))
	before := f.workers().ResourceVersion
	f.Expect(f.succeeds("rollout undo md workers -n NAME --to-revision 1")).To(ContainSubstring("already has the template of revision 1"))
	f.Expect(f.workers().ResourceVersion).To(Equal(before))
}

// Claim: Undo goes back to the kubelet configuration of a revision, whatever its ConfigMap has now. Broken: the key alone is written.
func TestUndoPinsTheKubeletConfigurationOfARevision(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.revisions("v1.36.2", "v1.36.2")
	for i, content := range []string{"first", "second"} {
		set := &v1alpha1.MachineSet{}
		f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.name, Name: fmt.Sprintf("workers-h%d", i+1)}, set)).To(Succeed())
		set.Spec.Template.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "a", Resolved: &v1alpha1.ResolvedConfigSource{Key: "a", Content: content}}
		f.ExpectApplied(set)
	}
	deployment := f.workers()
	deployment.Spec.Template.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "a"}
	f.ExpectApplied(deployment)
	f.Expect(f.succeeds("rollout undo machinedeployment workers -n NAME")).To(ContainSubstring("rolled back to revision 1"))
	f.Expect(*f.workers().Spec.Template.Spec.ConfigSource).To(Equal(v1alpha1.ConfigSource{Key: "a", SHA256: v1alpha1.ContentHash("first")}))
}

func TestUndoOfATemplateWithoutARevision(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.revisions("v1.35.2", "v1.36.2")
	f.succeeds("rollout pause machinedeployment workers -n NAME")
	deployment := f.workers()
	deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
	f.ExpectApplied(deployment)
	f.Expect(f.succeeds("rollout undo machinedeployment workers -n NAME")).To(ContainSubstring("rolled back to revision 2"))
	f.Expect(f.workers().Spec.Template.Spec.Versions.Kubelet).To(Equal("v1.36.2"))
}

func TestUndoOfARevisionThatIsGone(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.fails(4, "has no revision yet", "rollout undo machinedeployment workers -n NAME")
	f.revisions("v1.35.2", "v1.36.2")
	before := f.workers().ResourceVersion
	f.fails(3, "has no revision 7 (any more); it has 1, 2", "rollout undo machinedeployment workers -n NAME --to-revision 7")
	f.fails(2, "--to-revision", "rollout undo machinedeployment workers -n NAME --to-revision -1")
	f.ExpectDeleted(&v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "workers-h1"}})
	f.fails(3, "no revision before its current revision, 2; it has 2", "rollout undo machinedeployment workers -n NAME")
	f.Expect(f.workers().ResourceVersion).To(Equal(before))
}

func TestUndoOfAPausedDeploymentSaysSo(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.revisions("v1.35.2", "v1.36.2")
	f.Expect(f.succeeds("rollout pause machinedeployment workers -n NAME")).To(ContainSubstring("workers paused"))
	f.Expect(f.workers().Spec.Paused).To(BeTrue())
	f.Expect(f.succeeds("rollout pause machinedeployment workers -n NAME")).To(ContainSubstring("is paused already"))
	r := f.hollow("rollout undo machinedeployment workers -n NAME")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("nothing is replaced until"))
	f.succeeds("rollout resume machinedeployment workers -n NAME")
	f.Expect(f.workers().Spec.Paused).To(BeFalse())
}

func TestRolloutsPrintTheDeploymentAndTellMoreWhenWide(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.revisions("v1.35.2", "v1.36.2")
	f.Expect(f.succeeds("rollout undo machinedeployment workers -n NAME -o wide")).To(MatchRegexp(`^\S+ rolled back to revision 1
  Kubelet before: +v1.36.2
  Namespace: +` + f.name + `
  Revision: +2
  Strategy: +RollingUpdate
  Kubelet: +v1.35.2
  Paused: +false
  Machines: +0, of which 0 updated, 0 ready, 0 available
$`))
	f.counts(2, 2)
	for _, test := range []struct{ command, says string }{{"pause", "paused"}, {"resume", "resumed"}, {"undo --to-revision 2", "revision 2"}} {
		f.fails(2, "xml", "rollout "+test.command+" machinedeployment workers -n NAME -o xml")
		r := f.hollow("rollout " + test.command + " machinedeployment workers -n NAME -o json")
		f.Expect(r.code).To(Equal(0), r.errOut)
		printed := &v1alpha1.MachineDeployment{}
		f.Expect(json.Unmarshal([]byte(r.out), printed)).To(Succeed(), "standard output is the object alone")
		f.Expect(printed.Spec).To(Equal(f.workers().Spec))
		f.Expect(r.errOut).To(ContainSubstring(test.says))
	}
	f.counts(2, 2)
	f.Expect(f.succeeds("rollout status machinedeployment workers -n NAME -o wide")).To(ContainSubstring("2, of which 2 updated, 2 ready, 2 available"))
}

func TestHistory(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.revisions("v1.35.2", "v1.36.2")
	f.Expect(f.succeeds("rollout history machinedeployment workers -n NAME")).To(MatchRegexp(
		`^REVISION +CURRENT +MACHINES +KUBELET +AGE +MACHINESET\n1 +0 +v1.35.2 +\d+m?s +workers-h1\n2 +\* +0 +v1.36.2 +\d+m?s +workers-h2\n$`))
	f.Expect(f.succeeds("rollout history machinedeployment workers -n NAME -o name")).To(Equal("machineset.hollowfleet.io/workers-h1\nmachineset.hollowfleet.io/workers-h2\n"))
	shown := f.succeeds("rollout history machinedeployment workers -n NAME --revision 1")
	f.Expect(shown).To(ContainSubstring("kubelet: v1.35.2"))
	f.Expect(shown).NotTo(ContainSubstring(v1alpha1.MachineTemplateHashLabel))
	f.fails(3, "it has 1, 2", "rollout history machinedeployment workers -n NAME --revision 3")
}

func TestStatusFollowsUntilTheEnd(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.stops(5, "has not rolled out within 100ms: waiting for the hub", "rollout status machinedeployment workers -n NAME --timeout 100ms")
	f.counts(1, 1)
	f.Expect(f.succeeds("rollout status machinedeployment workers -n NAME --watch=false")).To(ContainSubstring("1 of 2 machines updated"))
	done := make(chan run, 1)
	go func() { done <- f.hollow("rollout status machinedeployment workers -n NAME") }()
	f.Consistently(done, glance).ShouldNot(Receive())
	f.counts(2, 2)
	var r run
	f.Eventually(done, patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(ContainSubstring("2 of 2 machines updated, all available"))
}

func TestStatusOfADeploymentThatGoesAway(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	done := make(chan run, 1)
	go func() { done <- f.hollow("rollout status machinedeployment workers -n NAME") }()
	f.Consistently(done, glance).ShouldNot(Receive())
	f.ExpectDeleted(f.workers())
	var r run
	f.Eventually(done, patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(3), r.errOut)
	f.fails(3, "does not exist in namespace", "rollout status machinedeployment workers -n NAME")
}

// counts plays the hub: it reports how many Machines are updated and available.
func (f *env) counts(updated, available int32) {
	f.T.Helper()
	deployment := f.workers()
	deployment.Status = v1alpha1.MachineDeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: 2, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available,
	}
	f.ExpectStatusApplied(deployment)
}
