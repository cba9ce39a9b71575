package cli_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// withoutKinds removes kinds until restoreKinds brings them back.
func (f *env) withoutKinds(plurals ...string) {
	f.T.Helper()
	kinds := testenv.Kinds{}
	for _, plural := range plurals {
		kinds.Names = append(kinds.Names, plural+"."+v1alpha1.GroupVersion.Group)
	}
	f.Expect(kinds.Uninstall(f.T.Context(), f.Client)).To(Succeed())
}

// restoreKinds empties the hub, and has all kinds brought back at the end of the test. The tests of the package share the API server, so
// that nothing else may run meanwhile: Setenv fails in a test that is parallel, and go test runs parallel ones when this one is over.
func (f *env) restoreKinds() {
	f.T.Helper()
	f.T.Setenv("HOLLOWFLEET_KINDS", "removed")
	f.emptyHub()
	f.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.StartTimeout)
		defer cancel()
		// Objects that hold a kind hold it for the tests that follow.
		_, err := f.emptyKinds(ctx)
		if err = errors.Join(err, awaitWholeKinds(ctx)); err != nil {
			f.T.Error(err)
		}
		if err := config.InstallCRDs(ctx, testenv.Server().Client, config.CRDs, "crd"); err != nil {
			f.T.Error(err)
		}
	})
}

// awaitWholeKinds waits until no kind is being deleted.
func awaitWholeKinds(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, glance, true, func(ctx context.Context) (bool, error) {
		removed, err := cmdutil.RemovedKinds(ctx, testenv.Server().Client)
		return len(removed) == 0, err
	})
}

// A hub that has lost some of its kinds: each command does what it can without them, or names the kind and the remedy.
// Claim: A half-removed hub is named with remedy, and can be cleared. Broken: the client's limit of requests; a kind that is missing is "no hub". Also: TestAHalfRemovedHubIsNamedAndItsFinalizersAreRemoved, TestCommandsOfAUserWithoutRights.
// Edge case: One missing CRD broke every command.
func TestCommandsBearKindsThatAreMissing(t *testing.T) {
	f := newEnv(t)
	f.restoreKinds()
	f.newCluster()
	f.deployment(1)
	f.succeeds("cluster join NAME-other")
	f.withoutKinds("machinesets", "machines", "loadtests", "nodedisruptions")

	for args, says := range map[string]string{
		"cluster list": "", "fleet list": "", "version": "", "rollout status machinedeployment workers -n NAME --watch=false": "",
		"rollout pause machinedeployment workers -n NAME": "", "freeze machinedeployment workers -n NAME --wait=false": "",
		"fleet tree machinedeployment/workers -n NAME":       "Left out: MachineSet: the API server does not have this kind",
		"cluster remove NAME-other --yes --dry-run":          "Left out: Machine: the API server does not have this kind",
		"support-bundle --output-file " + t.TempDir() + "/b": "Left out: loadtests.json: no matches for kind",
	} {
		r := f.hollow(args)
		f.Expect(r.code).To(Equal(0), args+": "+r.errOut)
		f.Expect(r.errOut).To(ContainSubstring(says), args)
	}
	for args, kind := range map[string]string{
		"rollout history machinedeployment workers -n NAME": "MachineSet", "rollout undo machinedeployment workers -n NAME": "MachineSet",
		"freeze machineset x -n NAME": "MachineSet", "loadtest list": "LoadTest", "loadtest run pod-startup": "LoadTest",
		"disrupt list": "NodeDisruption", "disrupt stop x": "NodeDisruption",
	} {
		r := f.hollow(args)
		f.Expect(r.code).To(Equal(1), args+": "+r.errOut)
		f.Expect(r.errOut).To(And(ContainSubstring(": "+kind+": the API server does not have this kind"), ContainSubstring(`run "hub install"`),
			Not(ContainSubstring("is not a hub"))), args)
	}
	found := f.status(1)
	f.Expect(found.Problem).To(And(ContainSubstring("not checked: "), ContainSubstring("MachineSet, Machine"), ContainSubstring("NodeDisruption")))
}

// A hub that was uninstalled with Clusters left: its kinds are being deleted, and nobody removes the finalizers.
// Edge case: A half-removed hub had no way out.
// Edge case: A rate limit made the wrong exit code.
func TestAHalfRemovedHubIsNamedAndItsFinalizersAreRemoved(t *testing.T) {
	f := newEnv(t)
	f.renewHub(time.Now().Add(-time.Hour))
	f.restoreKinds()
	f.deployment(1)
	f.machine("held")
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.name, Finalizers: []string{v1alpha1.ClusterFinalizer}}}
	f.ExpectApplied(cluster)
	f.ExpectDeleted(cluster)
	f.fails(4, "the hub hub-1 has not renewed its Lease", "cluster remove-finalizers NAME --yes")
	f.fails(4, "kubectl get crd -o name", "cluster remove-finalizers NAME --yes")

	for _, name := range []string{"clusters", "machines"} {
		definition := &unstructured.Unstructured{}
		definition.SetName(name + "." + v1alpha1.GroupVersion.Group)
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		f.ExpectDeleted(definition)
	}
	r := f.hollow("status")
	f.Expect(r.code).To(Equal(1))
	f.Expect(r.out).To(MatchRegexp(`(?m)^Being removed: +clusters, machines: .*kubectl hollow cluster remove-finalizers NAME for each cluster`))
	f.Expect(r.errOut).To(And(ContainSubstring("the hub does not work"), ContainSubstring("the hub is being removed: clusters, machines")))
	f.Eventually(func() string { return f.all("cluster join NAME-new") }).WithTimeout(patience).Should(And(HavePrefix("4:"),
		ContainSubstring("this kind is being deleted with all its objects")))

	f.letHubWork()
	f.stops(5, "still being deleted with their kinds", "cluster remove-finalizers NAME --yes --timeout 2s") // A hub that works removes its own.
	f.ExpectExists(cluster)

	f.renewHub(time.Now().Add(-time.Hour))
	r = f.hollow("cluster remove-finalizers NAME --yes --timeout 60s")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(ContainSubstring("cluster.hollowfleet.io/" + f.name + " finalizer removed"))
	f.Expect(r.errOut).To(ContainSubstring("kubectl delete namespace " + f.name))
	f.Eventually(func() string { return f.all("status") }).WithTimeout(patience).Should(And(HavePrefix("1:"),
		MatchRegexp(`(?m)^Cluster: +not checked: the API server does not have this kind`), Not(ContainSubstring("Being removed"))))
}

// all is the exit code of a command and everything that it prints.
func (f *env) all(args string) string {
	r := f.hollow(args)
	return fmt.Sprintf("%d:\n%s%s", r.code, r.out, r.errOut)
}

// Without any right each command is refused and says which right is missing, and none says that all is well.
func TestCommandsOfAUserWithoutRights(t *testing.T) {
	f := newEnv(t)
	other := f.AcceptedCluster().Name
	f.deployment(1)
	user := f.name + "-user"
	for _, args := range []string{
		"cluster list", "cluster join NAME-new", "cluster accept NAME", "cluster deny NAME", "cluster remove NAME --yes", "cluster acknowledge NAME --yes",
		"cluster remove-finalizers NAME --yes", "freeze cluster NAME", "unfreeze machinedeployment workers -n NAME", "fleet list", "fleet status x", "fleet tree cluster/NAME",
		"fleet tree machinedeployment/workers -n NAME", "rollout status machinedeployment workers -n NAME", "rollout history machinedeployment workers -n NAME",
		"rollout undo machinedeployment workers -n NAME", "rollout pause machinedeployment workers -n NAME",
		"upgrade machinedeployment/workers -n NAME --kubelet v1.37.1", "disrupt list", "disrupt stop x", "loadtest list", "loadtest stop x", "loadtest report x",
		"loadtest run pod-startup", "status",
	} {
		r := f.as(user, args)
		f.Expect(r.code).To(Equal(4), args+": "+r.errOut)
		f.Expect(r.errOut).To(Or(ContainSubstring("Ask an administrator of the hub for this right"), ContainSubstring("you may not")), args)
	}
	// With the right to look at Clusters alone the rest is named.
	f.ExpectApplied(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"get", "list"}},
	}})
	f.ExpectApplied(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}})
	f.Eventually(func() int { return f.as(user, "cluster list").code }).WithTimeout(patience).Should(Equal(0))
	r := f.as(user, "cluster remove "+other+" --yes")
	f.Expect(r.code).To(Equal(4))
	f.Expect(r.errOut).To(ContainSubstring("cannot list resource"))
}
