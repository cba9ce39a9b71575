package machinedeployment

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Edge case: An orphaned set blocked rollouts, unnamed. Also: TestRecreatedAfterAnOrphanDeletionRollsOut, TestRecreatedWithAnotherSelectorRollsOutBesideTheOldSetAndNamesIt.
func TestAdoptsSetsThatItsSelectorMatches(t *testing.T) {
	f := newEnv(t, 2, nil)
	orphan := func(name, version string, labels map[string]string) *v1alpha1.MachineSet {
		set := &v1alpha1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: name, Labels: labels},
			Spec: v1alpha1.MachineSetSpec{
				ClusterName: f.cluster.Name, Replicas: new(int32(1)),
				Selector: f.deployment.Spec.Selector, Template: *f.deployment.Spec.Template.DeepCopy(),
			},
		}
		set.Spec.Template.Spec.Versions.Kubelet = version
		f.ExpectApplied(set)
		return set
	}
	same := orphan("same", "v1.36.2", map[string]string{"app": "x"})
	orphan("other-template", "v1.35.0", map[string]string{"app": "x", v1alpha1.MachineDeploymentNameLabel: "pool"})
	orphan("other-template-by-labels-alone", "v1.35.0", map[string]string{"app": "x"})
	orphan("same-template-by-labels-alone", "v1.36.2", map[string]string{"app": "x"})
	orphan("of-another", "v1.36.2", map[string]string{"app": "x", v1alpha1.MachineDeploymentNameLabel: "other"})
	orphan("other-labels", "v1.36.2", map[string]string{"app": "y"})
	f.rest()
	var owned []string
	for _, set := range f.list() {
		if metav1.IsControlledBy(&set, f.deployment) {
			owned = append(owned, set.Name)
		}
	}
	f.Expect(owned).To(ConsistOf(same.Name, "other-template"))
	f.ExpectExists(same)
	f.Expect(same.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
	f.Expect(same.Labels).To(HaveKeyWithValue(v1alpha1.AutoscalerDeploymentNameLabel, "pool"))
}

// aware has the garbage collector know this package's kinds.
var aware = sync.OnceValue(func() error { return testenv.Server().AwareCollector(context.Background()) })

// recreate deletes the deployment without its sets, as kubectl delete --cascade=orphan does, and makes another one of the
// same name.
func (f *env) recreate(change func(*v1alpha1.MachineDeployment)) {
	f.T.Helper()
	f.refresh()
	f.Expect(aware()).To(Succeed())
	f.Expect(f.Client.Delete(f.T.Context(), f.deployment, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(f.T.Context(), client.ObjectKeyFromObject(f.deployment), &v1alpha1.MachineDeployment{}))
	}).WithTimeout(time.Minute).Should(BeTrue(), "the garbage collector orphans the sets")
	next := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.deployment.Namespace, Name: f.deployment.Name}, Spec: *f.deployment.Spec.DeepCopy(),
	}
	change(next)
	f.ExpectApplied(next)
	f.deployment = next
}

func TestRecreatedAfterAnOrphanDeletionRollsOut(t *testing.T) {
	upgraded := func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.1"
	}
	for name, change := range map[string]func(*v1alpha1.MachineDeployment){
		"by a rolling update": func(deployment *v1alpha1.MachineDeployment) { upgraded(deployment) },
		"by recreation": func(deployment *v1alpha1.MachineDeployment) {
			upgraded(deployment)
			deployment.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate}
		},
		"in a surge group": func(deployment *v1alpha1.MachineDeployment) {
			upgraded(deployment)
			deployment.Spec.Strategy = rollingBy("1")
			deployment.Spec.Strategy.RollingUpdate.SurgeGroup = "zones"
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "by a rolling update" {
				testenv.Long(t)
			}
			f := newEnv(t, 2, nil)
			f.rest()
			f.recreate(change)
			f.settle(func() { f.Expect(len(f.Machines(f.cluster.Name))).To(BeNumerically("<=", 3), "replicas and surge") })
			f.Expect(f.Machines(f.cluster.Name)).To(And(HaveLen(2), HaveEach(HaveField("Spec.Versions.Kubelet", "v1.37.1"))))
			f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
			for _, set := range f.list() {
				f.Expect(metav1.IsControlledBy(&set, f.deployment)).To(BeTrue(), "a deletion in the foreground takes set %s with it", set.Name)
			}
		})
	}
	t.Run("in the middle of a rollout", func(t *testing.T) {
		f := newEnv(t, 2, nil)
		f.rest()
		f.upgrade("v1.37.1")
		for range 2 {
			f.ExpectReconciled(f.deployment)
			f.reconcileSets()
		}
		f.recreate(func(*v1alpha1.MachineDeployment) {})
		f.settle(func() { f.Expect(len(f.Machines(f.cluster.Name))).To(BeNumerically("<=", 3), "replicas and surge") })
		f.Expect(f.Machines(f.cluster.Name)).To(And(HaveLen(2), HaveEach(HaveField("Spec.Versions.Kubelet", "v1.37.1"))))
	})
	t.Run("when its Machines are deleted", func(t *testing.T) {
		testenv.Long(t)
		f := newEnv(t, 3, nil)
		f.rest()
		f.recreate(func(deployment *v1alpha1.MachineDeployment) {
			upgraded(deployment)
			deployment.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete}
		})
		f.rest()
		f.Expect(f.Machines(f.cluster.Name)).To(HaveLen(3))
		f.Expect(f.Client.Delete(t.Context(), new(f.Machines(f.cluster.Name)[0]))).To(Succeed())
		f.rest()
		f.Expect(f.Machines(f.cluster.Name)).To(And(HaveLen(3), ContainElement(HaveField("Spec.Versions.Kubelet", "v1.37.1"))))
	})
}

// The sets of a selector that is no longer the deployment's are left alone, as apps/v1 does it; they take up no room.
func TestRecreatedWithAnotherSelectorRollsOutBesideTheOldSetAndNamesIt(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.rest()
	old := f.list()[0]
	f.recreate(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Selector.MatchLabels = map[string]string{"app": "y"}
		deployment.Spec.Template.Metadata.Labels = map[string]string{"app": "y"}
	})
	f.rest()
	f.Expect(f.refresh().Status.UpdatedReplicas).To(BeEquivalentTo(3))
	f.Expect(f.deployment.Status.Replicas).To(BeEquivalentTo(3))
	progressing := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(progressing.Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
	f.Expect(progressing.Message).To(And(ContainSubstring("MachineSet "+old.Name), ContainSubstring("delete it")))
	f.Expect(f.Machines(f.cluster.Name)).To(HaveLen(6))
	var told []string
	for _, event := range f.Events() {
		if strings.Contains(event, "LeftBehind") {
			told = append(told, event)
		}
	}
	f.Expect(told).To(ConsistOf(ContainSubstring(old.Name)), "it is told once")
	f.ExpectDeleted(&old)
	f.Eventually(func() string {
		f.FinishDeletions(f.cluster.Name) // The garbage collector takes its time.
		f.Clock.Step(time.Minute)
		f.ExpectReconciled(f.deployment)
		return f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Message
	}).WithTimeout(time.Minute).Should(BeEmpty())
}
