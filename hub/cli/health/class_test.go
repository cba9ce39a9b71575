package health

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A class of which no Machine can be made is named, whether Machines have tried it or not.
func TestAClassOfWhichNoMachineCanBeMadeIsNamed(t *testing.T) {
	using := func(class, reason string, phase v1alpha1.MachinePhase) v1alpha1.Machine {
		m := *machine(phase, ready)
		m.Spec.ProviderConfig.ValueRef = &v1alpha1.MachineClassReference{Name: class}
		m.Status.ErrorReason, m.Status.ErrorMessage = reason, "what the agent says"
		return m
	}
	second := using("tried", v1alpha1.ErrorInvalidConfiguration, v1alpha1.MachineFailed)
	second.Status.ErrorMessage = "something else"
	judge := &Judge{Now: now}
	judge.Observe(&v1alpha1.MachineList{Items: []v1alpha1.Machine{
		using("tried", v1alpha1.ErrorUnknownProvider, v1alpha1.MachineFailed), second,
		using("own", "", v1alpha1.MachineRunning), using("slow", v1alpha1.ErrorCreationTimeout, v1alpha1.MachineFailed),
	}})
	for name, c := range map[string]struct {
		name, provider, config string
		state                  State
		reason, says           string
	}{
		"one that Machines failed with":       {"tried", "aws", "", Problem, v1alpha1.ErrorUnknownProvider, "2 Machines of this class failed with it: what the agent says"},
		"an own driver that works":            {"own", "mine", `{"whatever":1}`, Healthy, "", ""},
		"an own driver that is not tried":     {"new", "aws", "", Waiting, v1alpha1.ErrorUnknownProvider, `spec.provider: "aws" is not built in`},
		"a typo in a field":                   {"new", "hollow", `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","maxpods":5}`, Problem, v1alpha1.ErrorInvalidConfiguration, `"maxpods" is not a field of HollowNodeConfig`},
		"a field of another type":             {"new", "hollow", `{"maxPods":"many"}`, Problem, v1alpha1.ErrorInvalidConfiguration, "maxPods"},
		"a typo in a field of a field":        {"new", "hollow", `{"imagePull":{"bytesPerSecond":"10Mi","speed":1}}`, Problem, v1alpha1.ErrorInvalidConfiguration, `"imagePull.speed" is not a field of HollowNodeConfig`},
		"another case in a field of a field":  {"new", "hollow", `{"kubelet":{"eventburst":5}}`, Problem, v1alpha1.ErrorInvalidConfiguration, `"kubelet.eventburst" is not a field`},
		"no JSON object":                      {"new", "hollow", `[1]`, Problem, v1alpha1.ErrorInvalidConfiguration, "cannot unmarshal"},
		"no configuration":                    {"new", "hollow", "", Healthy, "", ""},
		"a configuration":                     {"new", "hollow", `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","maxPods":5,"capacity":{"cpu":"4"},"imagePull":{"bytesPerSecond":"10Mi"},"startupDelay":"1s","kubelet":{"eventBurst":5}}`, Healthy, "", ""},
		"Machines that fail for other causes": {"slow", "hollow", "", Healthy, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			class := &v1alpha1.MachineClass{ObjectMeta: objectMeta(c.name), Spec: v1alpha1.MachineClassSpec{Provider: c.provider}}
			if c.config != "" {
				class.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(c.config)}
			}
			s := subjectOf(class)
			found := judge.judgeSubject(s)
			g.Expect(found.state).To(Equal(c.state), found.message)
			g.Expect(found.reason).To(Equal(c.reason))
			g.Expect(found.message).To(ContainSubstring(c.says))
			if c.state != Healthy {
				g.Expect(nextCommand(s, found)).To(Equal("kubectl edit machineclass " + c.name + " -n c1"))
			}
		})
	}
}
