package preset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestPresets(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			load, disruption, err := Expand(&v1alpha1.LoadPreset{Name: name, CleanupPolicy: v1alpha1.LoadCleanupKeep, Seed: 7}, 4)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(disruption != nil).To(Equal(name == NodeChurn))
			g.Expect(load).To(And(HaveField("CleanupPolicy", v1alpha1.LoadCleanupKeep), HaveField("Seed", BeEquivalentTo(7)), HaveField("Namespaces", BeEquivalentTo(1))))
			g.Expect(load.Thresholds).To(ContainElements(HaveField("Measurement", v1alpha1.LoadAPIRequest), HaveField("Measurement", v1alpha1.LoadErrors)))
			g.Expect(load.Timeout.Duration).To(BeNumerically("<", 20*time.Minute))
			pod := &corev1.Pod{}
			g.Expect(yaml.UnmarshalStrict([]byte(load.Templates[0].Object), pod)).To(Succeed())
			g.Expect(pod.Spec.NodeSelector).To(HaveKeyWithValue(v1alpha1.HollowNodeLabel, "true"), "they run on no real Node")
			g.Expect(pod.Spec.Containers[0].Resources.Requests).To(BeEmpty(), "the scheduler spreads them then")
			total := int32(0)
			for _, one := range load.Steps {
				for _, phase := range one.Phases {
					if phase.Action == v1alpha1.LoadCreate && phase.Template == "pod" {
						total += phase.Replicas
					}
				}
			}
			g.Expect(total).To(BeEquivalentTo(map[bool]int{true: 40, false: 20}[name == Density]), "small enough for a machine of two cores")
		})
	}
}

func TestNodesOfASmallClusterFailToo(t *testing.T) {
	for nodes, want := range map[int32]int{1: 1, 3: 1, 4: 1, 9: 2, 200: 50} {
		_, disruption, err := Expand(&v1alpha1.LoadPreset{Name: NodeChurn}, nodes)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(disruption.Target).To(And(HaveField("Mode", disrupt.ModeFixed), HaveField("Value", BeEquivalentTo(want))))
	}
}

func TestWhatIsSetComesBeforeThePreset(t *testing.T) {
	g := NewWithT(t)
	own := []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadPodReady, Max: &metav1.Duration{Duration: time.Minute}}}
	load, _, err := Expand(&v1alpha1.LoadPreset{Name: PodStartup, PodsPerNode: 30, Namespaces: 7, QPS: 50, Thresholds: own}, 5)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(load.Thresholds).To(Equal(own))
	g.Expect(load.Namespaces).To(BeEquivalentTo(7))
	g.Expect(load.Steps[0].Phases[0]).To(And(HaveField("Replicas", BeEquivalentTo(22)), HaveField("Tuning.QPS", BeEquivalentTo(50))), "no fewer pods than are wanted")
	load, _, err = Expand(&v1alpha1.LoadPreset{Name: Density, Pods: 12, Duration: &metav1.Duration{Duration: 3 * time.Second}}, 5)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(load.Steps[0].Phases[0].Replicas).To(BeEquivalentTo(12))
	g.Expect(load.Steps[1].Phases[0].Duration.Duration).To(Equal(3 * time.Second))
}
