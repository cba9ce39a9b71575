package hollow

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// addNode makes a Node with a label until the test ends.
func (b *env) addNode(t *testing.T, name, label string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "taint"}}}
	if label != "" {
		node.Labels[label] = "true"
	}
	NewWithT(t).Expect(b.client.Create(t.Context(), node)).To(Succeed())
	t.Cleanup(func() { _ = b.client.Delete(context.Background(), node) })
	return node
}

// registersWith are the taints that a Machine's Node registers with.
func (b *env) registersWith(g *WithT, machine string) []corev1.Taint {
	configuration, err := hollownode.Parse(b.secret(g, machine).Data[hollownode.ConfigFileName])
	g.Expect(err).NotTo(HaveOccurred())
	return configuration.Taints
}

func TestNodesRegisterWithTheTaintWhereThereAreRealNodes(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	create := func(name string) {
		_, err := b.Create(t.Context(), b.request(name))
		g.Expect(err).NotTo(HaveOccurred())
	}
	b.addNode(t, "other-hollow", v1alpha1.HollowNodeLabel)
	b.addNode(t, "other-podhost", v1alpha1.PodHostLabel)
	create("before")
	g.Expect(b.registersWith(g, "before")).To(BeEmpty(), "a simulated cluster needs no taint")

	worker := b.addNode(t, "real", "")
	create("after")
	g.Expect(b.registersWith(g, "after")).To(ConsistOf(hollowTaint()))

	// What was decided stays, also when the pod or its token is replaced.
	stays := func(name string, taints int) {
		found, err := b.Get(t.Context(), b.request(name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.UpToDate).To(BeTrue(), "no pod is replaced because of other Nodes")
		g.Expect(found.Taints).To(BeEmpty())
		g.Expect(found.UnwantedTaints).To(BeEmpty())
		defer b.clock.SetTime(b.clock.Now())
		b.clock.SetTime(b.clock.Now().Add(tokenLifetime))
		_, err = b.Update(t.Context(), b.request(name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(b.registersWith(g, name)).To(HaveLen(taints))
		g.Expect(b.client.Delete(t.Context(), b.pod(g, name), client.GracePeriodSeconds(0))).To(Succeed())
		create(name)
		g.Expect(b.registersWith(g, name)).To(HaveLen(taints))
	}
	stays("before", 0)
	g.Expect(b.client.Delete(t.Context(), worker)).To(Succeed())
	stays("after", 1)
}

func TestClassAndOptionDecideOverTheTaint(t *testing.T) {
	always, never := v1alpha1.HollowTaintAlways, v1alpha1.HollowTaintNever
	for name, test := range map[string]struct {
		option, class v1alpha1.HollowTaint
		real          bool
		registers     bool
		wanted        bool
		unwanted      bool
	}{
		"option always":                   {option: always, registers: true, wanted: true},
		"option never, real nodes":        {option: never, real: true, unwanted: true},
		"class always over option":        {option: never, class: always, registers: true, wanted: true},
		"class never over option":         {option: always, class: never, real: true, unwanted: true},
		"class never over detection":      {class: never, real: true, unwanted: true},
		"class auto over option":          {option: always, class: v1alpha1.HollowTaintAuto},
		"class auto over option, real":    {option: never, class: v1alpha1.HollowTaintAuto, real: true, registers: true},
		"nothing said, no real nodes":     {},
		"nothing said, but real nodes":    {real: true, registers: true},
		"auto by option, with real nodes": {option: v1alpha1.HollowTaintAuto, real: true, registers: true},
	} {
		t.Run(name, func(t *testing.T) {
			g, b := NewWithT(t), newEnv(t)
			b.options.HollowTaint = test.option
			if test.real {
				b.addNode(t, "real", "")
			}
			request := b.request("m1")
			if test.class != "" {
				request.Class = classOf(`{` + head + `, "hollowTaint": "` + string(test.class) + `"}`)
			}
			found, err := b.Create(t.Context(), request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.registersWith(g, "m1")).To(HaveLen(map[bool]int{true: 1}[test.registers]))
			g.Expect(found.Taints).To(HaveLen(map[bool]int{true: 1}[test.wanted]))
			g.Expect(found.UnwantedTaints).To(HaveLen(map[bool]int{true: 1}[test.unwanted]))
		})
	}
}

func TestTheMachinesOwnTaintOfTheKeyStays(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	b.options.HollowTaint = v1alpha1.HollowTaintAlways
	request := b.request("m1")
	own := corev1.Taint{Key: v1alpha1.HollowNodeTaint, Value: "mine", Effect: corev1.TaintEffectNoSchedule}
	request.Machine.Spec.Taints = []corev1.Taint{own}
	_, err := b.Create(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.registersWith(g, "m1")).To(ConsistOf(own))
}

// unlisted answers no list.
type unlisted struct{ client.Reader }

func (unlisted) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return apierrors.NewInternalError(errors.New("no answer"))
}

func TestNoNodeIsMadeWhileItIsNotKnownWhetherThereAreRealOnes(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	answering := b.environment.Target.Reader
	b.environment.Target.Reader = unlisted{answering}
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).To(MatchError(ContainSubstring("looking for nodes that are not hollow")))
	_, err = b.Get(t.Context(), b.request("m1"))
	g.Expect(err).To(MatchError(driver.ErrNotFound))
	b.environment.Target.Reader = answering
	_, err = b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
}

func TestPodsOfEarlierAgentsKeepTheirHash(t *testing.T) {
	g := NewWithT(t)
	want, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: classOf("")})
	g.Expect(err).NotTo(HaveOccurred())
	before, err := hashOf(want.configuration.Labels, want.configuration.Taints)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(want.registrationHash).To(Equal(before))
	changed, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: classOf(`{` + head + `, "hollowTaint": "Never"}`)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed.registrationHash).NotTo(Equal(before))
	g.Expect(changed.configurationHash).To(Equal(want.configurationHash), "the Node is changed where it is")
}
