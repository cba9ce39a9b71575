package main

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dashboardName is the name of all that belongs to the dashboard.
const dashboardName = "hollowfleet-dashboard"

// Claim: The chart's dashboard is off by default, read-only unless told, and has no right of its own: no token in its pod, and nothing bound to its ServiceAccount. Broken: a token mounted; a role bound; changes allowed by default; a policy without its port; a certificate without the names that browsers use.
func TestTheDashboardFits(t *testing.T) {
	flags := []string{"certificate-authority"} // Every command has it.
	for _, match := range flagCall.FindAllStringSubmatch(read(t, "hub/cli/dashboard/serve.go"), -1) {
		flags = append(flags, match[1])
	}
	hubChart := hubChart
	hubChart.apis = certManagerAPI
	for _, object := range hubChart.objects(t, "") {
		if object.GetName() == dashboardName {
			t.Errorf("%s is there without dashboard.enabled", key(object))
		}
	}
	for set, want := range map[string][]string{
		"dashboard.enabled=true,dashboard.image.tag=v1,tls.mode=selfSigned": {"--tls-self-signed=true", "--allow-changes=false", "--most-users=8"},
		dashboardSet: {"--tls-cert-file=/etc/hollowfleet/tls/tls.crt", "--allow-changes=true", "--most-users=3"},
	} {
		g := NewWithT(t)
		objects := hubChart.objects(t, set)
		deployment := find[*appsv1.Deployment](t, objects, dashboardName)
		pod := deployment.Spec.Template
		checkPod(g, objects, workload{deployment, deployment.Spec.Selector, pod, nil})
		args := pod.Spec.Containers[0].Args
		g.Expect(args[:2]).To(Equal([]string{"dashboard", "serve"}))
		checkArgs(g, args, flags)
		g.Expect(args).To(ContainElements(want))
		g.Expect(selects(deployment.Spec.Selector, pod.Labels)).To(BeTrue())
		hub := find[*appsv1.Deployment](t, objects, "hollowfleet-hub")
		g.Expect(selects(hub.Spec.Selector, pod.Labels)).To(BeFalse(), "it is no hub")
		g.Expect(selects(deployment.Spec.Selector, hub.Spec.Template.Labels)).To(BeFalse())
		g.Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		g.Expect(find[*corev1.ServiceAccount](t, objects, dashboardName).AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		for _, volume := range pod.Spec.Volumes {
			g.Expect(volume.Projected).To(BeNil(), "no token")
		}
		checkSelector(g, objects, find[*corev1.Service](t, objects, dashboardName), pod)
		for _, object := range objects {
			for _, subject := range subjectsOf(object) {
				g.Expect(subject.Name).NotTo(Equal(dashboardName), key(object))
			}
		}
		if set != dashboardSet {
			continue
		}
		policy := find[*networkingv1.NetworkPolicy](t, objects, dashboardName)
		checkSelector(g, objects, policy, pod)
		g.Expect(policy.Spec.Ingress[0].From).To(HaveLen(1))
		g.Expect(find[*certificate](t, objects, dashboardName).Spec.DNSNames).To(ConsistOf(dashboardName+".hollowfleet-system.svc", "localhost", "fleet.example.com"))
	}
	_, err := hubChart.render(t, hubChart.values(t, "dashboard.enabled=true,dashboard.image.tag=v1,tls.mode=none"))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("dashboard.enabled: users send tokens, which needs TLS")))
}

// subjectsOf are those to whom an object gives rights.
func subjectsOf(object client.Object) []rbacv1.Subject {
	switch o := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		return o.Subjects
	case *rbacv1.RoleBinding:
		return o.Subjects
	}
	return nil
}
