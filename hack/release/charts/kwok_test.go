package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// kwokName is the name of all that belongs to kwok's controller.
const kwokName = "hollowfleet-kwok"

// kwok's controller runs where only restricted pods may, with the stages that an agent starts it with.
func TestKwoksControllerFits(t *testing.T) {
	g := NewWithT(t)
	objects := agentChart.objects(t, "kwok.enabled=true,kwok.nodeLeaseDurationSeconds=80")
	deployment := find[*appsv1.Deployment](t, objects, kwokName)
	image := &deployment.Spec.Template.Spec.Containers[0].Image
	g.Expect(*image).To(Equal("registry.k8s.io/kwok/kwok:v0.8.0"))
	*image = "hollowfleet/kwok:v0" // All others are Hollowfleet's own, by which a pod is checked.
	checkPod(g, objects, workload{deployment, deployment.Spec.Selector, deployment.Spec.Template, nil})
	g.Expect(selects(deployment.Spec.Selector, deployment.Spec.Template.Labels)).To(BeTrue())
	agents := find[*appsv1.Deployment](t, objects, "hollowfleet-agent")
	g.Expect(selects(agents.Spec.Selector, deployment.Spec.Template.Labels)).To(BeFalse(), "it is not an agent")
	container := deployment.Spec.Template.Spec.Containers[0]
	g.Expect(deployment.Spec.Template.Spec.ServiceAccountName).To(Equal(kwokName))

	source, err := os.ReadFile(filepath.Join(root, "agent/driver/kwok/controller.go"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, argument := range container.Args {
		name, _, _ := strings.Cut(argument, "=")
		g.Expect(string(source)).To(ContainSubstring(`"`+name+`=`), "an agent starts it alike")
	}
	g.Expect(container.Args).To(ContainElements("--node-lease-duration-seconds=80", "--manage-nodes-with-label-selector=hollowfleet.io/hollow=kwok"))
	var stages []string
	for _, name := range []string{"kwok", "node", "pod"} {
		content, err := os.ReadFile(filepath.Join(root, "agent/driver/kwok/stages", name+".yaml"))
		g.Expect(err).NotTo(HaveOccurred())
		stages = append(stages, strings.TrimSpace(string(content)))
	}
	g.Expect(strings.TrimSpace(find[*corev1.ConfigMap](t, objects, kwokName).Data["kwok.yaml"])).To(Equal(strings.Join(stages, "\n---\n")))
}
