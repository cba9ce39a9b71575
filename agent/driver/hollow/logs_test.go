package hollow

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: A Machine's name gives nobody the log of a pod that is not its own. Broken: any pod of that name is read.
func TestOnlyTheLogOfAMachinesOwnPodIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		own    bool
	}{
		"its own":              {map[string]string{v1alpha1.ClusterNameLabel: "c1", v1alpha1.MachineNameLabel: "m1"}, true},
		"without labels":       {nil, false},
		"of another cluster":   {map[string]string{v1alpha1.ClusterNameLabel: "c2", v1alpha1.MachineNameLabel: "m1"}, false},
		"of another Machine":   {map[string]string{v1alpha1.ClusterNameLabel: "c1", v1alpha1.MachineNameLabel: "m2"}, false},
		"of a cluster's agent": {map[string]string{v1alpha1.ClusterNameLabel: "c1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "m1", Labels: test.labels}}
			logs := Logs{Reader: ctrlfake.NewClientBuilder().WithObjects(pod).Build(), Client: fake.NewClientset(pod), Namespace: "hosts", Cluster: "c1"}
			tail, err := logs.ReadTail(t.Context(), "m1", LogQuery{Lines: 10, Bytes: 100})
			if !test.own {
				g.Expect(err).To(MatchError(driver.ErrNotFound))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(tail).To(Equal(LogTail{Pod: "hosts/m1", Text: "fake logs"}))
		})
	}
	logs := Logs{Reader: client.Reader(ctrlfake.NewClientBuilder().Build()), Client: fake.NewClientset(), Namespace: "hosts", Cluster: "c1"}
	_, err := logs.ReadTail(t.Context(), "m1", LogQuery{})
	NewWithT(t).Expect(err).To(MatchError(driver.ErrNotFound))
}

func TestTheEndOfALogIsKept(t *testing.T) {
	for _, size := range []int{0, 1, 99, 100, 101, 1000, 100_000} {
		g := NewWithT(t)
		whole := strings.Repeat("0123456789", size/10+1)[:size]
		text, truncated, err := readEnd(strings.NewReader(whole), 100)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(text).To(Equal(whole[max(0, size-100):]))
		g.Expect(truncated).To(Equal(size > 100))
	}
}
