package admission_test

import (
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// What has started was started as the spec says, and its plans are on the nodes.
// Claim: Only pausing changes a disruption. Broken: the policy lets all pass.
func TestOfADisruptionOnlyThePauseIsChanged(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	const file = "admission/disruptions.yaml"
	text, err := config.Admission.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Apply(t.Context(), c, fstest.MapFS{file: {Data: text}}, "admission")).To(Succeed())
	disruption := v1alpha1.Disruption{Faults: []disrupt.Fault{{Type: disrupt.NotReady}}, Timing: v1alpha1.DisruptionTiming{Duration: metav1.Duration{Duration: time.Minute}}}
	run := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "fixed"}}
	run.Spec.Disruption = disruption
	disrupted := &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}}
	disrupted.Spec.ClusterSelector, disrupted.Spec.Disruption = &metav1.LabelSelector{}, disruption
	for _, object := range []client.Object{run, disrupted} {
		g.Expect(c.Create(t.Context(), object)).To(Succeed())
		change := func(patch string) error {
			return c.Patch(t.Context(), object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
		}
		g.Eventually(func() error { return change(`{"spec":{"seed":3}}`) }).WithTimeout(time.Minute).
			Should(MatchError(ContainSubstring("spec.seed: only paused")), "the API server reads the policy")
		for field, patch := range map[string]string{
			"timing": `{"spec":{"timing":{"duration":"2m"}}}`, "target": `{"spec":{"target":{"mode":"One"}}}`, "faults": `{"spec":{"faults":[{"type":"Kill"}]}}`,
		} {
			g.Expect(change(patch)).To(MatchError(ContainSubstring("spec."+field+": only paused")), patch)
		}
		g.Expect(change(`{"spec":{"paused":true}}`)).To(Succeed())
		g.Expect(change(`{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
	}
}
