package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// The roles of people.
const (
	viewerRole, editorRole   = "hollowfleet-viewer", "hollowfleet-editor"
	loadTesterRole           = "hollowfleet-load-tester"
	fleetEditorRole          = "hollowfleet-fleet-editor"
	approverRole             = v1alpha1.ApproverRole
	simulationEditorRoleName = "hollowfleet-simulation-editor"
	logReaderRole            = "hollowfleet-log-reader"
	logRequests              = "machinelogrequests"
)

// everyVerb are those that a role could give, and reading those of who only looks.
var (
	everyVerb = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "approve", "simulate"}
	reading   = []string{"get", "list", "watch"}
)

// changes are what a role may do beside reading, by resource.
var changes = map[string]map[string][]string{
	viewerRole: {},
	editorRole: {
		"machinefleets": {"update", "patch"}, "machines": {"delete"},
		"machinedeployments/scale": {"get", "update", "patch"}, "machinesets/scale": {"get", "update", "patch"},
	},
	loadTesterRole: {"loadtests": {"create", "update", "patch", "delete"}},
	// These were there before, and do not read all.
	approverRole:    {"fleetapprovals": {"create", "delete"}, "machinefleets": {"approve"}, "simulatedclustersets": {"approve"}},
	fleetEditorRole: {"machinefleets": {"update", "patch"}},
	logReaderRole:   {logRequests: {"create", "delete"}},
	simulationEditorRoleName: {
		"simulatedclusters": {"create", "update", "patch", "delete"}, "simulatedclustersets": {"create", "update", "patch", "delete"},
		"simulatedclustersets/scale": {"get", "update", "patch"}, "clusters": {"simulate"},
	},
}

// readsAll are the roles that read every kind but logs.
var readsAll = []string{viewerRole, editorRole, loadTesterRole}

// neverGiven is what no role of people gives: each is a way to more than the role says.
var neverGiven = []string{
	"get secrets", "list secrets", "create serviceaccounts/token", "create pods", "create pods/exec", "delete namespaces", "patch namespaces",
	"bind clusterroles.rbac.authorization.k8s.io", "escalate clusterroles.rbac.authorization.k8s.io", "update clusterroles.rbac.authorization.k8s.io",
	"create clusterrolebindings.rbac.authorization.k8s.io", "create rolebindings.rbac.authorization.k8s.io",
	"impersonate users", "impersonate groups", "impersonate serviceaccounts",
	"create certificatesigningrequests.certificates.k8s.io", "update certificatesigningrequests.certificates.k8s.io/approval",
	"update leases.coordination.k8s.io", "list leases.coordination.k8s.io", "delete customresourcedefinitions.apiextensions.k8s.io",
	"delete validatingadmissionpolicies.admissionregistration.k8s.io", "update validatingadmissionpolicybindings.admissionregistration.k8s.io",
	"update placements.cluster.open-cluster-management.io",
}

// may asks the API server whether a user may do what "verb resource.group/subresource" says.
func may(t *testing.T, c client.Client, what string) bool {
	t.Helper()
	verb, rest, _ := strings.Cut(what, " ")
	rest, sub, _ := strings.Cut(rest, "/")
	resource, group, _ := strings.Cut(rest, ".")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Subresource: sub,
	}}}
	NewWithT(t).Expect(c.Create(t.Context(), review)).To(Succeed(), what)
	return review.Status.Allowed
}

// listResources are all of Hollowfleet's that the API server has, with their subresources.
func listResources(t *testing.T) (names []string) {
	t.Helper()
	g := NewWithT(t)
	asking, err := discovery.NewDiscoveryClientForConfig(testenv.Server().Config)
	g.Expect(err).NotTo(HaveOccurred())
	found, err := asking.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	g.Expect(err).NotTo(HaveOccurred())
	for i := range found.APIResources {
		names = append(names, found.APIResources[i].Name)
	}
	g.Expect(names).To(ContainElements("machines", "machines/status", "machinedeployments/scale"))
	return names
}

// Each role of people may do what it is for, on every kind that there is, and nothing else.
// Claim: Viewers, editors, approvers and load testers have the rights of their role, and no way to others. Broken: the editor may patch MachineDeployments. Also: TestOnlyTheViewerIsAggregated, TestALoadTesterLetsNoNodeFail.
func TestEachRoleOfPeopleMayDoWhatItIsFor(t *testing.T) {
	a := newApprovers(t)
	resources := listResources(t)
	for role, extra := range changes {
		t.Run(role, func(t *testing.T) {
			g := NewWithT(t)
			user := a.user("of-"+role, role)
			g.Eventually(func() bool {
				return may(t, user, "list machinelogrequests.hollowfleet.io") || may(t, user, "list machinefleets.hollowfleet.io") || may(t, user, "list simulatedclusters.hollowfleet.io")
			}).
				WithTimeout(time.Minute).Should(BeTrue(), "the role counts")
			var wrong []string
			for _, resource := range resources {
				for _, verb := range everyVerb {
					allowed := may(t, user, verb+" "+withGroup(resource))
					wanted := slices.Contains(extra[resource], verb)
					if slices.Contains(reading, verb) && !strings.Contains(resource, "/") {
						if !slices.Contains(readsAll, role) {
							continue
						}
						wanted = resource != logRequests
					}
					if allowed != wanted {
						wrong = append(wrong, fmt.Sprintf("%s %s: allowed %t", verb, resource, allowed))
					}
				}
			}
			g.Expect(wrong).To(BeEmpty())
			for _, what := range neverGiven {
				g.Expect(may(t, user, what)).To(BeFalse(), what)
			}
			g.Expect(user.Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: uniqueName()}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: approverRole},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "of-" + role}},
			})).To(refused, "nobody gives themselves another role")
		})
	}
}

// withGroup is a resource of Hollowfleet's with its group.
func withGroup(resource string) string {
	name, sub, has := strings.Cut(resource, "/")
	if has {
		return name + "." + v1alpha1.GroupVersion.Group + "/" + sub
	}
	return name + "." + v1alpha1.GroupVersion.Group
}

// What Kubernetes calls view, edit and admin reads a fleet on the hub, and changes and approves nothing of it.
func TestOnlyTheViewerIsAggregated(t *testing.T) {
	a := newApprovers(t)
	for _, role := range []string{"view", "edit", "admin"} {
		user := a.user("with-"+role, role)
		a.Eventually(func() bool { return may(t, user, "list machines.hollowfleet.io") }).WithTimeout(time.Minute).Should(BeTrue(), role)
		for _, resource := range listResources(t) {
			for _, verb := range everyVerb {
				if !slices.Contains(reading, verb) {
					a.Expect(may(t, user, verb+" "+withGroup(resource))).To(BeFalse(), "%s: %s %s", role, verb, resource)
				} else if strings.HasPrefix(resource, logRequests) {
					a.Expect(may(t, user, verb+" "+withGroup(resource))).To(BeFalse(), "%s reads logs", role)
				}
			}
		}
	}
	roles := &rbacv1.ClusterRoleList{}
	a.Expect(testenv.Server().Client.List(t.Context(), roles)).To(Succeed())
	for i := range roles.Items {
		if role := &roles.Items[i]; strings.HasPrefix(role.Name, "hollowfleet-") && role.Name != viewerRole {
			a.Expect(role.Labels).NotTo(HaveKey(HavePrefix("rbac.authorization.k8s.io/aggregate-to-")), role.Name)
		}
	}
}

// An editor works with the gates of a fleet as they are.
func TestAnEditorPassesNoGate(t *testing.T) {
	a := newApprovers(t)
	eve := a.user("eve-edits", editorRole)
	a.Eventually(func() error {
		return a.edit(eve, func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused = true })
	}).WithTimeout(time.Minute).Should(Succeed())
	a.Expect(a.edit(eve, func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Groups[1].Approval = v1alpha1.GroupApprovalNotRequired })).To(
		MatchError(ContainSubstring("a group that needs an approval")))
	a.Expect(eve.Create(t.Context(), a.approval("eve-edits"))).To(refused)
	a.Expect(eve.Delete(t.Context(), a.fleet)).To(refused)
	a.Expect(eve.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})).To(refused)
}

// A load test with a disruption is one way to have Nodes fail: who may not the other way may not this way.
func TestALoadTesterLetsNoNodeFail(t *testing.T) {
	a := newApprovers(t)
	const file = "admission/loadtests.yaml"
	text, err := config.Admission.ReadFile(file)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(config.Apply(t.Context(), testenv.Server().Client, fstest.MapFS{file: {Data: text}}, "admission")).To(Succeed())
	test := func(fails bool) *v1alpha1.LoadTest {
		made := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
		whole := load()
		made.Spec.Load, made.Spec.ClusterSelector = &whole, &metav1.LabelSelector{}
		if fails {
			made.Spec.Disruption = &v1alpha1.Disruption{Faults: []disrupt.Fault{{Type: disrupt.NotReady}}}
			made.Spec.Disruption.Timing.Duration.Duration = time.Minute
		}
		return made
	}
	lena := a.user("lena", loadTesterRole)
	a.Eventually(func() error { return lena.Create(t.Context(), test(false), client.DryRunAll) }).WithTimeout(time.Minute).Should(Succeed())
	a.Eventually(func() error { return lena.Create(t.Context(), test(true), client.DryRunAll) }).WithTimeout(time.Minute).Should(
		And(refused, MatchError(ContainSubstring(`spec.disruption: "lena" may not create nodedisruptions`))))
	a.Expect(testenv.Server().Client.Create(t.Context(), test(true), client.DryRunAll)).To(Succeed(), "an administrator may")
	a.Expect(lena.Create(t.Context(), &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: "x"}})).To(refused)
	a.Expect(lena.Create(t.Context(), &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})).To(refused)
}
