package machinedeployment

import (
	"context"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// leaveOut is what kubectl apply does with a manifest that does not name replicas any more.
func leaveOut(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = nil }

// Claim: Omitted replicas keep the current number. Broken: it becomes 1, as with the default of the schema. Also: TestReplicasOfAMachineSetLeftOut.
// Edge case: Omitted replicas scaled to 1. Also: TestReplicasOfANewDeployment, TestReplicasOfAMachineSetLeftOut.
func TestReplicasLeftOutKeepWhatIsThere(t *testing.T) {
	for name, change := range map[string]func(*env){
		"at rest":             func(f *env) { f.update(leaveOut) },
		"with a new template": func(f *env) { f.update(leaveOut); f.upgrade("v1.37.1") },
		"within a rollout": func(f *env) {
			f.upgrade("v1.37.1")
			f.ExpectReconciled(f.deployment)
			f.reconcileSets()
			f.update(leaveOut)
		},
		"of a set": func(f *env) {
			set := f.list()[0]
			set.Spec.Replicas = nil
			f.ExpectApplied(&set)
			f.reconcileSets()
		},
		"frozen": func(f *env) {
			f.update(func(deployment *v1alpha1.MachineDeployment) {
				leaveOut(deployment)
				metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, v1alpha1.FreezeAnnotation, "by the test")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 4, nil)
			f.rest()
			old := f.Machines(f.cluster.Name)
			change(f)
			f.settle(func() {
				f.Expect(len(uids(f.Machines(f.cluster.Name)))).To(BeNumerically(">=", 4), "no Machine is lost")
			})
			f.Expect(f.refresh().Spec.Replicas).To(HaveValue(BeEquivalentTo(4)))
			if name == "at rest" || name == "of a set" || name == "frozen" {
				f.Expect(uids(f.Machines(f.cluster.Name))).To(Equal(uids(old)))
			}
		})
	}
	t.Run("scaled to zero", func(t *testing.T) {
		f := newEnv(t, 2, nil)
		f.rest()
		f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(0)) })
		f.rest()
		f.update(leaveOut)
		f.rest()
		f.Expect(f.refresh().Spec.Replicas).To(HaveValue(BeZero()))
	})
	t.Run("recreated after an orphan deletion", func(t *testing.T) {
		f := newEnv(t, 3, nil)
		f.rest()
		old := f.Machines(f.cluster.Name)
		f.recreate(leaveOut)
		f.rest()
		f.Expect(uids(f.Machines(f.cluster.Name))).To(Equal(uids(old)))
	})
}

// A set that cannot be decoded has an empty spec: it would count as one Machine.
func TestReplicasAreNotFilledInWhileASetIsNotKnown(t *testing.T) {
	unknown := false
	f := newEnv(t, 4, nil)
	f.rest()
	f.Client = interceptor.NewClient(f.Client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		if sets, is := list.(*v1alpha1.MachineSetList); is && unknown {
			for i := range sets.Items {
				sets.Items[i].Spec, sets.Items[i].DecodeError = v1alpha1.MachineSetSpec{}, "by the test"
			}
		}
		return err
	}})
	f.control(f.Client)
	f.update(leaveOut)
	unknown = true
	f.ExpectReconciled(f.deployment)
	f.Expect(f.refresh().Spec.Replicas).To(BeNil())
	unknown = false
	f.ExpectReconciled(f.deployment)
	f.Expect(f.refresh().Spec.Replicas).To(HaveValue(BeEquivalentTo(4)))
}

func TestReplicasOfANewDeployment(t *testing.T) {
	for name, test := range map[string]struct {
		least, most string
		want        int32
	}{
		"without bounds":             {"", "", 1},
		"at least":                   {"3", "6", 3},
		"at most":                    {"0", "0", 0},
		"bounds that are no numbers": {"few", "many", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 1, nil)
			other := f.beside("auto", nil, map[string]string{"app": "x"})
			f.ExpectDeleted(f.deployment)
			other.Annotations = map[string]string{v1alpha1.AutoscalerMinSizeAnnotation: test.least, v1alpha1.AutoscalerMaxSizeAnnotation: test.most}
			if test.least == "" {
				other.Annotations = nil
			}
			f.ExpectApplied(other)
			f.deployment = other
			f.ExpectReconciled(f.deployment)
			f.Expect(f.refresh().Spec.Replicas).To(HaveValue(Equal(test.want)))
		})
	}
}

func TestReplicasOfAMachineSetLeftOut(t *testing.T) {
	f := newEnv(t, 0, nil)
	labels := map[string]string{"set": "alone"}
	set := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: "alone"},
		Spec: v1alpha1.MachineSetSpec{
			ClusterName: f.cluster.Name, Replicas: new(int32(4)), Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		},
	}
	f.ExpectApplied(set)
	f.reconcileAll(f.deployment)
	old := f.Machines(f.cluster.Name)
	f.Expect(old).To(HaveLen(4))
	left := f.list()
	for i := range left {
		if left[i].Name == "alone" {
			left[i].Spec.Replicas = nil
			f.ExpectApplied(&left[i])
		}
	}
	f.reconcileAll(f.deployment)
	f.Expect(uids(f.Machines(f.cluster.Name))).To(Equal(uids(old)))
}

// How many replicas a deployment had is what its sets were scaled for last, whatever surge they have in the middle of a rollout.
func TestHowManyReplicasADeploymentHad(t *testing.T) {
	type sized struct {
		revision, replicas int
		desired            string
	}
	for name, test := range map[string]struct {
		sets   []sized
		status int32
		want   int
	}{
		"no set":                               {nil, 0, 0},
		"no set, and Machines that are going":  {nil, 3, 0},
		"one set":                              {[]sized{{1, 4, "4"}}, 4, 4},
		"a set without the hub's note":         {[]sized{{1, 4, ""}}, 4, 4},
		"two sets without it":                  {[]sized{{1, 3, ""}, {2, 2, ""}}, 5, 5},
		"in a rollout, with surge":             {[]sized{{2, 2, "4"}, {1, 3, "4"}}, 5, 4},
		"scaled in the middle of it":           {[]sized{{1, 3, "4"}, {2, 2, "6"}}, 5, 6},
		"undone":                               {[]sized{{3, 4, "4"}, {2, 0, "7"}}, 4, 4},
		"one whose set was never scaled up":    {[]sized{{1, 0, "4"}, {2, 0, "4"}}, 1, 4},
		"scaled to zero":                       {[]sized{{1, 0, "0"}}, 0, 0},
		"scaled to zero, with an older note":   {[]sized{{1, 0, "4"}}, 0, 0},
		"the newest set has no Machine so far": {[]sized{{1, 4, "4"}, {2, 0, "5"}}, 4, 4},
	} {
		var sets []v1alpha1.MachineSet
		for _, one := range test.sets {
			set := v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				v1alpha1.RevisionAnnotation: strconv.Itoa(one.revision), v1alpha1.DesiredReplicasAnnotation: one.desired,
			}}}
			set.Spec.Replicas = new(int32(one.replicas))
			sets = append(sets, set)
		}
		deployment := &v1alpha1.MachineDeployment{Status: v1alpha1.MachineDeploymentStatus{Replicas: test.status}}
		if got := sizeOf(sets, deployment); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
