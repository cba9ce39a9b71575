package admission_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func remediation(maxUnhealthy, maxInFlight string) func(*v1alpha1.MachineSet) {
	return func(s *v1alpha1.MachineSet) {
		unhealthy, inFlight := intstr.Parse(maxUnhealthy), intstr.Parse(maxInFlight)
		s.Spec.Remediation = v1alpha1.Remediation{MaxUnhealthy: &unhealthy, MaxInFlight: &inFlight}
	}
}

func timeouts(health, drain time.Duration) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Spec.Timeouts = &v1alpha1.MachineTimeouts{Health: &metav1.Duration{Duration: health}, Drain: &metav1.Duration{Duration: drain}}
	}
}

func TestValidLifecyclesAreAccepted(t *testing.T) {
	objects := map[string]client.Object{
		"bounds in numbers": with(set(), remediation("0", "1")),
		"bounds in percent": with(set(), remediation("100%", "1%")),
		"random victims":    with(set(), func(s *v1alpha1.MachineSet) { s.Spec.DeletePolicy = v1alpha1.DeleteRandom }),
		"timeouts":          with(machine(), timeouts(time.Second, 0)),
		"throw-away nodes":  with(class(), func(c *v1alpha1.MachineClass) { c.Spec.DrainPolicy = v1alpha1.SkipDrain }),
	}
	for name, object := range objects {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(testenv.Server().Client.Create(t.Context(), object)).To(Succeed())
		})
	}
}

func TestBadLifecyclesAreRefusedWithFieldAndRemedy(t *testing.T) {
	tests := map[string]struct {
		object        client.Object
		field, remedy string
	}{
		"negative maxUnhealthy":    {with(set(), remediation("-1", "1")), "spec.remediation.maxUnhealthy", "0 or more, or a percentage"},
		"maxUnhealthy above 100%":  {with(set(), remediation("101%", "1")), "spec.remediation.maxUnhealthy", "a percentage up to 100%"},
		"maxUnhealthy of no sense": {with(set(), remediation("most", "1")), "spec.remediation.maxUnhealthy", "0 or more, or a percentage"},
		"0% in flight":             {with(set(), remediation("1", "0%")), "spec.remediation.maxInFlight", "from 1% to 100%"},
		"unknown delete policy": {with(set(), func(s *v1alpha1.MachineSet) { s.Spec.DeletePolicy = "Cheapest" }),
			"spec.deletePolicy", `"Oldest", "Newest", "Random"`},
		"health timeout of nothing": {with(machine(), timeouts(0, 0)), "timeouts.health", "more than 0s"},
		"negative drain timeout":    {with(machine(), timeouts(time.Second, -time.Second)), "timeouts.drain", "must not be negative"},
		"unhealthy condition without name": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.UnhealthyNodeConditions = []string{""} }),
			"spec.unhealthyNodeConditions", "at least 1 chars"},
		"unknown drain policy": {with(class(), func(c *v1alpha1.MachineClass) { c.Spec.DrainPolicy = "Rush" }),
			"spec.drainPolicy", `"Drain", "Skip"`},
		"role that makes no label": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.Roles = []string{"Worker!"} }),
			"spec.roles", "should match"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := testenv.Server().Client.Create(t.Context(), test.object)
			NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(test.field), ContainSubstring(test.remedy))))
		})
	}
}

const (
	minSize  = v1alpha1.AutoscalerMinSizeAnnotation
	maxSize  = v1alpha1.AutoscalerMaxSizeAnnotation
	capacity = v1alpha1.AutoscalerCapacityPrefix
)

// scaledKinds returns a deployment and a set with annotations.
func scaledKinds(annotations map[string]string) map[string]client.Object {
	objects := map[string]client.Object{"deployment": deployment(), "set": set()}
	for _, object := range objects {
		object.SetAnnotations(annotations)
	}
	return objects
}

func TestAnnotationsThatTheAutoscalerCannotReadAreRefused(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	old := scaledKinds(map[string]string{minSize: "many"})["deployment"]
	g.Expect(c.Create(t.Context(), old)).To(Succeed(), "before there is a policy")
	g.Expect(config.Apply(t.Context(), c, config.Admission, "admission")).To(Succeed())
	g.Eventually(func() error {
		return c.Create(t.Context(), scaledKinds(map[string]string{maxSize: "x"})["set"], client.DryRunAll)
	}).WithTimeout(time.Minute).Should(HaveOccurred(), "the API server reads the policy")

	refused := map[string]struct {
		annotations map[string]string
		message     string
	}{
		"no number":      {map[string]string{minSize: "one", maxSize: "3"}, minSize + ` is "one": write a whole number`},
		"a fraction":     {map[string]string{maxSize: "1.5"}, maxSize + ` is "1.5": write a whole number`},
		"negative":       {map[string]string{minSize: "-1", maxSize: "1"}, minSize + ` is "-1": write a whole number`},
		"empty":          {map[string]string{maxSize: ""}, maxSize + ` is "": write a whole number`},
		"both bad":       {map[string]string{minSize: "a", maxSize: "b"}, minSize + ` is "a", ` + maxSize + ` is "b"`},
		"max below min":  {map[string]string{minSize: "3", maxSize: "2"}, minSize + " is 3, but " + maxSize + " is only 2: raise the maximum"},
		"min alone":      {map[string]string{minSize: "1"}, maxSize + " is missing, which counts as 0: set it too"},
		"a bad capacity": {map[string]string{capacity + "cpu": "four"}, capacity + `cpu is "four": write a quantity`},
		// Edge case: A costly quantity in an annotation.
		"a costly capacity":    {map[string]string{capacity + "cpu": "1e-2000000000"}, capacity + `cpu is "1e-2000000000": write a quantity`},
		"a bad number of pods": {map[string]string{capacity + "maxPods": "1k"}, capacity + `maxPods is "1k": write a whole number`},
	}
	for name, test := range refused {
		for kind, object := range scaledKinds(test.annotations) {
			t.Run(name+", "+kind, func(t *testing.T) {
				NewWithT(t).Expect(c.Create(t.Context(), object)).To(MatchError(ContainSubstring(test.message)))
			})
		}
	}
	for name, annotations := range map[string]map[string]string{
		"none": nil, "sizes": {minSize: "0", maxSize: "10"}, "max alone": {maxSize: "10"}, "min 0 alone": {minSize: "0"},
		"equal sizes": {minSize: "9", maxSize: "9"}, "capacity": {capacity + "cpu": "3500m", capacity + "memory": "16Gi", capacity + "maxPods": "110"},
	} {
		for kind, object := range scaledKinds(annotations) {
			t.Run(name+", "+kind, func(t *testing.T) {
				g := NewWithT(t)
				g.Expect(c.Create(t.Context(), object)).To(Succeed())
				object.SetAnnotations(map[string]string{minSize: "5", maxSize: "4"})
				g.Expect(c.Update(t.Context(), object)).To(MatchError(ContainSubstring("raise the maximum")))
			})
		}
	}

	old.SetLabels(map[string]string{"another": "change"})
	g.Expect(c.Update(t.Context(), old)).To(Succeed(), "an older object may be changed otherwise")
	old.SetAnnotations(map[string]string{minSize: "some"})
	g.Expect(c.Update(t.Context(), old)).To(MatchError(ContainSubstring("write a whole number")))
}
