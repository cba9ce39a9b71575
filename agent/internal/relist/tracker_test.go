package relist

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func pod(name, version string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.ResourceVersion = "ns", name, version
	return pod
}

// Claim: Late caches take no readiness and no cordon. Broken: the cache believed; a read, a creation or a cordon not remembered; the pod of a Machine that is gone remembered. Also: agent/internal/machine TestReadinessIsNotLostToACacheThatIsBehind, TestUpdateInPlace, "should know its own cordon, and that it took it back, while the cache does not"; agent/driver/hollow TestACacheThatIsBehindIsNotBelieved.
func TestMemory(t *testing.T) {
	for _, test := range []struct {
		name   string
		told   []*corev1.Pod
		cached *corev1.Pod
		want   bool
	}{
		{"nothing was told", nil, pod("a", "5"), false},
		{"another was told", []*corev1.Pod{pod("b", "9")}, pod("a", "5"), false},
		{"the cache is older", []*corev1.Pod{pod("a", "9")}, pod("a", "5"), true},
		{"10 is more than 9", []*corev1.Pod{pod("a", "9")}, pod("a", "10"), false},
		{"the cache is as new", []*corev1.Pod{pod("a", "9")}, pod("a", "9"), false},
		{"the newest counts", []*corev1.Pod{pod("a", "5"), pod("a", "9")}, pod("a", "7"), true},
		{"the API server has gone back", []*corev1.Pod{pod("a", "9"), pod("a", "5")}, pod("a", "7"), false},
		{"a version that is not a number", []*corev1.Pod{pod("a", "9")}, pod("a", "five"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, m := NewWithT(t), Tracker{}
			for _, told := range test.told {
				m.Observed(told)
			}
			g.Expect(m.Behind(test.cached)).To(Equal(test.want))
			g.Expect(m.Behind(test.cached)).To(Equal(test.want), "asked again")
		})
	}
}

func TestMemoryIsOfAName(t *testing.T) {
	g, m := NewWithT(t), Tracker{}
	before, after := pod("a", "5"), pod("a", "9")
	before.UID, after.UID = types.UID("before"), types.UID("after")
	m.Observed(after)
	g.Expect(m.Behind(before)).To(BeTrue(), "the cache still has the one before")
}

func TestMemoryLetsGo(t *testing.T) {
	g, m := NewWithT(t), Tracker{}
	m.Observed(pod("a", "9"))
	m.Observed(pod("b", "9"))
	g.Expect(m.Behind(pod("a", "9"))).To(BeFalse())
	g.Expect(m.told).To(HaveLen(1), "the cache has come as far")
	m.Forget(client.ObjectKeyFromObject(pod("b", "")))
	g.Expect(m.Behind(pod("b", "5"))).To(BeFalse())
	g.Expect(m.told).To(BeEmpty())
}
