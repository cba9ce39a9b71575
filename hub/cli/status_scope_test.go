package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// bindIn gives the env's user a role in its namespace alone.
func (f *env) bindIn(role string) {
	f.T.Helper()
	f.Expect(config.Apply(f.T.Context(), f.Client, config.RBAC, "rbac/users")).To(Succeed())
	f.ExpectApplied(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: f.name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: f.name}}})
}

// newNamespaceUser makes a namespace with a MachineDeployment, which a user of its name may read, and nothing else.
func newNamespaceUser(t *testing.T) *env {
	t.Helper()
	f := newEnv(t)
	f.deployment(1)
	f.bindIn("hollowfleet-viewer")
	return f
}

// runWith runs a command with another kubeconfig.
func (f *env) runWith(kubeconfig string, line ...string) run {
	f.T.Helper()
	var out, errOut bytes.Buffer
	code := cli.Execute(f.T.Context(), append(line, "--kubeconfig", kubeconfig), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	return run{code, out.String(), errOut.String()}
}

// scopedJSON is what status adds for a namespace.
type scopedJSON struct {
	statusJSON
	Namespace, NotSeen string
}

// Claim: `status -n` checks one namespace for a user who may read no other, calls no kind there unchecked, and says what is not seen. Broken: all namespaces listed; the Cluster that may not be read called healthy; kinds outside left out without a word.
func TestStatusOfOneNamespace(t *testing.T) {
	f := newNamespaceUser(t)
	r := f.as(f.name, "status")
	f.Expect(r.code).To(Equal(4), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("For one that you may list: -n NAMESPACE"))
	f.Eventually(func() string { return f.as(f.name, "status -n NAME").out }).WithTimeout(patience).Should(And(
		MatchRegexp(`(?m)^MachineDeployment: +1: `), MatchRegexp(`(?m)^Scope: +only namespace `+f.name+` is shown. Not seen: .*MachineFleets`)))
	r = f.as(f.name, "status -n NAME")
	f.Expect(r.out).To(MatchRegexp(`(?m)^Hub: +not checked: you may not read its Lease`))
	f.Expect(strings.Count(r.out, "not checked")).To(Equal(1), r.out)
	r = f.as(f.name, "status -n NAME -o json")
	var found scopedJSON
	f.Expect(json.Unmarshal([]byte(r.out), &found)).To(Succeed())
	f.Expect(found.Healthy).To(BeFalse())
	f.Expect(found.Problem).To(ContainSubstring("Cluster " + f.name))
	f.Expect(found.Namespace).To(Equal(f.name))
	f.Expect(found.NotSeen).To(ContainSubstring("LoadTests"))
	f.Expect(found.Kinds).To(And(HaveEach(HaveField("Forbidden", false)), HaveLen(7)))
	f.Expect(found.Kinds).NotTo(ContainElement(HaveField("Kind", health.Cluster)))

	// The Cluster and the Lease may be given by name.
	f.ExpectApplied(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"}, ResourceNames: []string{f.name}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{v1alpha1.HubLeaseName}, Verbs: []string{"get"}},
	}})
	f.bind(f.name, f.name)
	f.Eventually(func() string { return f.as(f.name, "status -n NAME").out }).WithTimeout(patience).Should(And(
		Not(ContainSubstring("not checked")), MatchRegexp(`(?m)^Cluster: `)))
	shown := f.follows("status -w -n NAME --as NAME")
	shown.shows(`(?s)^--- .*Scope: +only namespace ` + f.name + ` is shown.*MachineDeployment: +1: `)
	f.ExpectDeleted(&v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "workers"}})
	shown.shows(`MachineDeployment: +0: `)
	shown.stopsBy130()
}

// Claim: Without -n, the namespace of the kubeconfig's context is checked if the user may list no others. Broken: all namespaces listed; a user who may list all of them shown one.
func TestStatusOfTheNamespaceOfTheContext(t *testing.T) {
	f := newNamespaceUser(t)
	path := testenv.Server().Cluster.AdminKubeconfig()
	kubeconfig, err := clientcmd.LoadFromFile(path)
	f.Expect(err).NotTo(HaveOccurred())
	for _, one := range kubeconfig.Contexts {
		one.Namespace = f.name
	}
	path = filepath.Join(t.TempDir(), "kubeconfig")
	f.Expect(clientcmd.WriteToFile(*kubeconfig, path)).To(Succeed())
	f.Eventually(func() string { return f.runWith(path, "status", "--as", f.name).out }).WithTimeout(patience).Should(ContainSubstring("only namespace " + f.name))
	f.Expect(f.runWith(path, "status").out).NotTo(ContainSubstring("Scope:"), "an administrator sees all")
	for _, one := range kubeconfig.Contexts {
		one.Namespace = corev1.NamespaceDefault
	}
	f.Expect(os.Remove(path)).To(Succeed())
	f.Expect(clientcmd.WriteToFile(*kubeconfig, path)).To(Succeed())
	f.Expect(f.runWith(path, "status", "--as", f.name).out).NotTo(ContainSubstring("Scope:"))
}
