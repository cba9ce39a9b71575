package drain

import (
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestARoundBeginsWithAnyPodAndComesToAll(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fromAnywhere(nil)).To(BeEmpty())
	var pods []corev1.Pod
	for i := range 4 {
		pod := corev1.Pod{}
		pod.Name = strconv.Itoa(i)
		pods = append(pods, pod)
	}
	first := map[string]bool{}
	for range 200 {
		turned := fromAnywhere(pods)
		g.Expect(turned).To(ConsistOf(pods))
		first[turned[0].Name] = true
	}
	g.Expect(first).To(HaveLen(4), "each pod comes first some time")
}
