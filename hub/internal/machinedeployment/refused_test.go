package machinedeployment

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// serves lets the cluster's agent report the version of its API server.
func (f *env) serves(version string) {
	f.T.Helper()
	f.ExpectExists(f.cluster)
	f.cluster.Status.KubernetesVersion = version
	f.ExpectStatusApplied(f.cluster)
}

// kubelets are the versions of all Machines.
func (f *env) kubelets() map[types.UID]string {
	f.T.Helper()
	kubelets := map[types.UID]string{}
	for _, machine := range f.Machines(f.cluster.Name) {
		kubelets[machine.UID] = machine.Spec.Versions.Kubelet
	}
	return kubelets
}

// refusedRollout has rolled out and gets a template that its cluster's API server does not support.
func refusedRollout(t *testing.T, strategy v1alpha1.MachineDeploymentStrategy) *env {
	t.Helper()
	f := newEnv(t, 3, nil)
	f.serves("v1.37.1")
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy = strategy })
	f.rest()
	before := f.kubelets()
	f.Events()
	f.upgrade("v1.99.0")
	f.rest()
	f.Expect(f.kubelets()).To(Equal(before), "all earlier machines exist, and no others")
	return f
}

// expectRefused wants the deployment to say why nothing is rolled out, and what a user can do.
func (f *env) expectRefused() {
	f.T.Helper()
	condition := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(condition.Status).To(Equal(metav1.ConditionFalse))
	f.Expect(condition.Reason).To(Equal(v1alpha1.ReasonUnsupportedKubeletVersion))
	f.Expect(condition.Message).To(And(
		ContainSubstring("spec.template.spec.versions.kubelet: v1.99.0 is newer than the API server's v1.37.1"),
		ContainSubstring(v1alpha1.AllowKubeletVersionSkewAnnotation+"=true in spec.template.metadata.annotations"),
	))
}

// Claim: Unsupported kubelets replace nothing. Broken: the cluster's version is not read; a rollout continues with a template that is refused. Also: hub/internal/machinedeployment/plan TestRefusedTemplateTakesNothingAway; test/integration/lifecycle "should lose nothing to a kubelet that the API server does not support, and go back".
func TestKubeletThatTheClusterDoesNotSupportCostsNoMachine(t *testing.T) {
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	for name, strategy := range map[string]v1alpha1.MachineDeploymentStrategy{
		"RollingUpdate":               {Type: v1alpha1.RollingUpdate},
		"RollingUpdate without surge": {Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: &none, MaxUnavailable: &one}},
		"InPlace":                     {Type: v1alpha1.InPlace},
		"Recreate":                    {Type: v1alpha1.Recreate},
	} {
		t.Run(name, func(t *testing.T) {
			if strategy.RollingUpdate != nil || strategy.Type == v1alpha1.Recreate {
				testenv.Long(t)
			}
			f := refusedRollout(t, strategy)
			f.expectRefused()
			f.Expect(f.Events()).To(ContainElement(ContainSubstring("Warning UnsupportedKubeletVersion 0 of 3 machines")))
			f.Expect(f.replicasOf(f.list())).To(Equal([]int32{3, 0}), "the revision has its set, to go back from")

			f.update(func(deployment *v1alpha1.MachineDeployment) {
				deployment.Spec.Template.Metadata.Annotations = map[string]string{v1alpha1.AllowKubeletVersionSkewAnnotation: "true"}
			})
			f.rest()
			if strategy.Type == v1alpha1.InPlace {
				f.Expect(f.kubelets()).To(And(HaveLen(3), ContainElement("v1.99.0")), "the agent of the first is asked to update it")
				return
			}
			f.Expect(f.kubelets()).To(And(HaveLen(3), HaveEach("v1.99.0")), "the user allows it")
			f.Expect(f.Machines(f.cluster.Name)).To(HaveEach(HaveField("Annotations", HaveKeyWithValue(v1alpha1.AllowKubeletVersionSkewAnnotation, "true"))))
			f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
		})
	}
}

func TestKubeletThatTheClusterDoesNotSupportReplacesNoDeletedMachine(t *testing.T) {
	f := refusedRollout(t, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete})
	victim := f.Machines(f.cluster.Name)[0]
	f.ExpectDeleted(&victim)
	f.rest()
	f.Expect(f.kubelets()).To(And(HaveLen(3), Not(HaveKey(victim.UID)), HaveEach("v1.36.2")), "it is recreated with the template that it had")
	f.expectRefused()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(5)) })
	f.rest()
	f.Expect(f.kubelets()).To(And(HaveLen(5), HaveEach("v1.36.2")), "scaling continues")
}

func TestRollsOutWhenTheClusterSupportsTheKubelet(t *testing.T) {
	f := refusedRollout(t, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate})
	f.serves("")
	f.ExpectReconciled(f.deployment)
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonRollingOut), "no version, no verdict")

	f = refusedRollout(t, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate})
	f.serves("v1.99.1")
	f.rest()
	f.Expect(f.kubelets()).To(And(HaveLen(3), HaveEach("v1.99.0")))
}

func TestGoesBackFromAKubeletThatTheClusterDoesNotSupport(t *testing.T) {
	f := refusedRollout(t, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate})
	before := f.kubelets()
	f.upgrade("v1.36.2")
	f.rest()
	f.Expect(f.kubelets()).To(Equal(before))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
}

func TestNewDeploymentOfAKubeletThatTheClusterDoesNotSupportMakesNoMachine(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.serves("v1.37.1")
	f.upgrade("v1.99.0")
	f.rest()
	f.Expect(f.Machines(f.cluster.Name)).To(BeEmpty())
	f.expectRefused()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Paused = true })
	f.rest()
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Message).To(And(ContainSubstring("spec.paused"), ContainSubstring("versions.kubelet")))
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Paused, deployment.Spec.Template.Spec.Versions.Kubelet = false, "v1.37.0"
	})
	f.rest()
	f.Expect(f.kubelets()).To(And(HaveLen(2), HaveEach("v1.37.0")))
}

// A cluster may move on so far that Machines which run are no longer supported: they stay, and only what is recreated
// would be refused.
func TestMachinesThatRunStayWhenTheClusterMovesOn(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	before := f.kubelets()
	f.serves("v1.99.0")
	f.rest()
	f.Expect(f.kubelets()).To(Equal(before))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(4)) })
	f.rest()
	f.Expect(f.kubelets()).To(Equal(before))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Message).To(ContainSubstring("2 of 4 machines have the current template, and no others will get it"))
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(1)) })
	f.rest()
	f.Expect(f.Machines(f.cluster.Name)).To(HaveLen(1))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
}

// Claim: Machines that are upgraded together with their control plane wait for it, and say so. Broken: the wait reported as a refusal; the SimulatedCluster of another cluster believed.
func TestAKubeletWaitsForTheControlPlaneThatIsToSupportIt(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.serves("v1.36.2")
	f.rest()
	before := f.kubelets()
	host := testenv.Name()
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: host}})
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: host, Name: f.cluster.Name}}
	one.Spec.Versions.ControlPlane = "v1.37"
	f.ExpectApplied(one)
	f.upgrade("v1.37.0")
	reason := func() string {
		f.T.Helper()
		f.rest()
		f.Expect(f.kubelets()).To(Equal(before), "nothing is replaced before the API server has the version")
		return f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason
	}
	f.Expect(reason()).To(Equal(v1alpha1.ReasonUnsupportedKubeletVersion), "the cluster is not simulated")
	prove := func(proof string) {
		f.T.Helper()
		f.ExpectExists(f.cluster)
		metav1.SetMetaDataAnnotation(&f.cluster.ObjectMeta, v1alpha1.SimulatedClusterAnnotation, proof)
		f.Expect(f.Client.Update(t.Context(), f.cluster)).To(Succeed())
	}
	prove(host + "/another")
	f.Expect(reason()).To(Equal(v1alpha1.ReasonUnsupportedKubeletVersion), "it is another's")
	prove(one.ProofOfSimulation())
	f.Events()
	f.Expect(reason()).To(Equal(v1alpha1.ReasonAwaitingControlPlane))
	condition := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(condition.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(condition.Message).To(And(ContainSubstring("0 of 2 machines have the current template"), ContainSubstring("is to have v1.37")))
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("Normal RolloutAwaitsControlPlane")))
	f.ExpectExists(f.deployment)
	f.Expect(meta.FindStatusCondition(f.deployment.Status.Conditions, v1alpha1.StalledCondition)).To(BeNil())
	f.ExpectExists(one)
	one.Spec.Versions.ControlPlane = "v1.36"
	f.Expect(f.Client.Update(t.Context(), one)).To(Succeed())
	f.Expect(reason()).To(Equal(v1alpha1.ReasonUnsupportedKubeletVersion), "its control plane stays as it is")
	one.Spec.Versions.ControlPlane = "v1.37"
	f.Expect(f.Client.Update(t.Context(), one)).To(Succeed())
	f.Expect(reason()).To(Equal(v1alpha1.ReasonAwaitingControlPlane))
	f.serves("v1.37.1")
	f.rest()
	f.Expect(f.kubelets()).To(And(HaveLen(2), HaveEach("v1.37.0")))
}
