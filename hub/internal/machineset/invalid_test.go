package machineset

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// older lets the controller read the set as change leaves it: as one that was stored before admission refused that.
func (f *env) older(change func(*v1alpha1.MachineSet)) {
	f.T.Helper()
	funcs := interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if set, ok := object.(*v1alpha1.MachineSet); ok && err == nil {
				change(set)
			}
			return err
		},
	}
	cached := interceptor.NewClient(f.Writes.Count(f.Client), funcs)
	logic, err := New(Deps{Client: cached, Live: interceptor.NewClient(f.Client, funcs), Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(cached, cached, logic)
}

// about returns those of told that are of that reason.
func about(told []string, reason string) []string {
	var events []string
	for _, event := range told {
		if strings.HasPrefix(event, "Warning "+reason+" ") {
			events = append(events, event)
		}
	}
	return events
}

// Edge case: Invalid labels blocked healing. Also: TestASelectorThatNoMachineCanMatchMakesNoneAndSaysSo, TestARefusedUpdateIsAFailureThatIsTriedMoreAndMoreRarely.
// Edge case: Reserved keys looped. Also: TestASelectorThatNoMachineCanMatchMakesNoneAndSaysSo.
func TestWhatNoMachineCanHaveIsLeftOutOfATemplateAndNamed(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.older(func(set *v1alpha1.MachineSet) {
		set.Spec.Template.Metadata.Labels["tier"], set.Spec.Template.Metadata.Labels["good"] = "not valid!", "label"
		set.Spec.Template.Metadata.Annotations = map[string]string{
			"my note": "n", v1alpha1.TemplateKeysAnnotation: "{}", v1alpha1.DeleteMachineAnnotation: "yes",
		}
	})
	f.ExpectReconciled(f.set)
	f.Expect(f.Machines(f.set.Namespace)).To(And(HaveLen(2), HaveEach(HaveField("Labels", And(Not(HaveKey("tier")), HaveKeyWithValue("good", "label"))))))
	failure := f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition)
	f.Expect(failure.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(failure.Reason).To(Equal(v1alpha1.ReasonInvalidTemplate))
	f.Expect(failure.Message).To(And(
		ContainSubstring(`spec.template.metadata.labels["tier"]`), ContainSubstring(`metadata.annotations["my note"]`),
		ContainSubstring(v1alpha1.TemplateKeysAnnotation), ContainSubstring(v1alpha1.DeleteMachineAnnotation)))
	f.Expect(about(f.Events(), v1alpha1.ReasonInvalidTemplate)).To(HaveLen(1))

	lost := f.Machines(f.set.Namespace)[0]
	f.ExpectDeleted(&lost)
	f.settle()
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(2), "a lost Machine is replaced")
	f.Writes.Counts()
	f.Events()
	for range 4 {
		f.pass(time.Minute)
		f.ExpectReconciled(f.set)
	}
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch Machine"), "nothing is given over and over")
	f.Expect(f.Events()).NotTo(ContainElement(ContainSubstring("MachinesUpdated")))
}

func TestASelectorThatNoMachineCanMatchMakesNoneAndSaysSo(t *testing.T) {
	for name, selector := range map[string]map[string]string{
		"an invalid value":                {"app": "not valid!"},
		"a label that the hub gives":      {"app": "x", v1alpha1.MachineSetNameLabel: "other"},
		"a label out of the template":     {"app": "x", "tier": "a"},
		"a label that goes by and by":     {"app": "x", v1alpha1.UpdateInPlaceLabel: "true"},
		"one that is not a label at all!": {"app": "x", "my label": "a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 2, nil)
			f.older(func(set *v1alpha1.MachineSet) { set.Spec.Selector.MatchLabels = selector })
			for range 3 {
				f.ExpectReconciled(f.set)
				f.pass(time.Minute)
			}
			f.Expect(f.Machines(f.set.Namespace)).To(BeEmpty())
			f.Expect(f.Writes.Counts()).NotTo(HaveKey("create Machine"))
			failure := f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition)
			f.Expect(failure.Reason).To(Equal(v1alpha1.ReasonInvalidSelector))
			f.Expect(failure.Message).To(ContainSubstring("spec.selector.matchLabels"))
			f.Expect(about(f.Events(), v1alpha1.ReasonInvalidSelector)).To(HaveLen(1))
		})
	}
}

func TestARefusedUpdateIsAFailureThatIsTriedMoreAndMoreRarely(t *testing.T) {
	f := newEnv(t, 20, nil)
	f.ExpectReconciled(f.set)
	tries := 0
	f.Runner = f.another(&interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, ok := object.(*v1alpha1.Machine); ok {
				tries++
				return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, object.GetName(), nil)
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.Template.Metadata.Labels["tier"] = "a" })
	lost := f.Machines(f.set.Namespace)[0]
	f.ExpectDeleted(&lost)
	f.Events()
	_, err := f.Reconcile(f.set)
	f.Expect(err).To(HaveOccurred())
	f.Expect(tries).To(Equal(1), "one is tried before many")
	failed := func() *metav1.Condition { return f.ReadCondition(f.set, v1alpha1.ReplicaFailureCondition) }
	f.Expect(failed().Status).To(Equal(metav1.ConditionTrue))
	f.Expect(failed().Reason).To(Equal(v1alpha1.ReasonMachineUpdateFailed))
	f.Expect(about(f.Events(), v1alpha1.ReasonMachineUpdateFailed)).To(HaveLen(1))
	for range 4 {
		f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(BeNumerically(">", 0), "it tries again if no event wakes it")
	}
	f.Expect(tries).To(Equal(1))
	f.Expect(failed().Reason).To(Equal(v1alpha1.ReasonMachineUpdateFailed), "until an update succeeds")
	f.FinishDeletions(f.set.Namespace)
	f.ExpectReconciled(f.set)
	f.Expect(active(f.Machines(f.set.Namespace))).To(HaveLen(20), "a lost Machine is replaced meanwhile")
	f.pass(firstPause)
	_, err = f.Reconcile(f.set)
	f.Expect(err).To(HaveOccurred())
	f.Expect(tries).To(Equal(2))

	f.Runner = f.another(nil)
	f.settle()
	f.Expect(failed().Status).To(Equal(metav1.ConditionFalse))
	f.Expect(f.Machines(f.set.Namespace)).To(HaveEach(HaveField("Labels", HaveKeyWithValue("tier", "a"))))
}
