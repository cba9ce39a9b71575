package hollow

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestAPodHasItsPlanFromTheBeginning(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	start := metav1.NewTime(time.Now().Truncate(time.Second))
	plan, err := disrupt.Encode(disrupt.Plan{Entries: []disrupt.Entry{{
		Run: "stuck", UID: "u", Fault: disrupt.Fault{Type: disrupt.NeverJoin},
		Timing: disrupt.Timing{Start: start, End: metav1.NewTime(start.Add(time.Minute))},
	}}})
	g.Expect(err).NotTo(HaveOccurred())
	plans := map[string]string{"hit": plan, "spared": ""}
	b.environment.DisruptionPlan = func(_ context.Context, machine *v1alpha1.Machine) (string, error) { return plans[machine.Name], nil }
	for name, plan := range plans {
		instance, err := b.Create(t.Context(), b.request(name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(instance.UpToDate).To(BeTrue(), "a plan is no part of the configuration")
		g.Expect(b.pod(g, name).Annotations[disrupt.Annotation]).To(Equal(plan))
		g.Expect(Disruptable(b.pod(g, name))).To(BeTrue())
	}
	g.Expect(b.pod(g, "spared").Annotations).NotTo(HaveKey(disrupt.Annotation))
}

func TestNoPodIsMadeBeforeItsPlanIsKnown(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	undecided := errors.New("the hub does not answer")
	b.environment.DisruptionPlan = func(context.Context, *v1alpha1.Machine) (string, error) { return "", undecided }
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).To(MatchError(undecided))
	err = b.client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "m1"}, &corev1.Pod{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}
