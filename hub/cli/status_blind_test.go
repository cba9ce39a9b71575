package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// silentServer takes connections and never answers, as a process that is stopped does. It returns a kubeconfig for it.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := "apiVersion: v1\nkind: Config\nclusters: [{name: hub, cluster: {server: \"http://" + listener.Addr().String() +
		"\"}}]\ncontexts: [{name: hub, context: {cluster: hub}}]\ncurrent-context: hub\n"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A hub whose API server hangs is not healthy: the command says so in time, in every format.
// Edge case: `status` waited forever.
func TestStatusOfAnAPIServerThatDoesNotAnswerIsNotKnown(t *testing.T) {
	g := NewWithT(t)
	for _, format := range []string{"", "-o=json"} {
		var out, errOut bytes.Buffer
		started := time.Now()
		line := strings.Fields("status --timeout 300ms " + format + " --kubeconfig " + silentServer(t))
		g.Expect(cli.Execute(t.Context(), line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})).To(Equal(1), errOut.String())
		g.Expect(time.Since(started)).To(BeNumerically("<", 30*time.Second))
		g.Expect(errOut.String()).To(ContainSubstring("whether the fleet is healthy is unknown: the hub's API server has not answered within 300ms"))
		if format == "" {
			continue
		}
		var found statusJSON
		g.Expect(json.Unmarshal(out.Bytes(), &found)).To(Succeed(), out.String())
		g.Expect(found.Healthy).To(BeFalse())
		g.Expect(found.Hub.Healthy).To(BeFalse())
		g.Expect(found.Problem).To(ContainSubstring("is unknown"))
	}
	g.Expect(cli.Execute(t.Context(), []string{"status", "--timeout", "0s"}, genericiooptions.NewTestIOStreamsDiscard())).To(Equal(2))
}

// One right that is missing is named, and what it would show does not count as healthy.
func TestStatusWithoutTheRightToOneKind(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	var kinds []string
	for _, kind := range health.Kinds {
		if kind.Kind != health.LoadTestRun {
			resource, _ := meta.UnsafeGuessKindToResource(v1alpha1.GroupVersion.WithKind(kind.Kind))
			kinds = append(kinds, resource.Resource)
		}
	}
	f.ExpectApplied(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: kinds, Verbs: []string{"list"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}},
	}})
	f.ExpectApplied(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: f.name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: f.name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: f.name}}})
	f.Eventually(func() string { return f.as(f.name, "status").errOut }).WithTimeout(patience).Should(
		Equal("error: whether the fleet is healthy is unknown: you may not list: LoadTestRun\n"))
	found := f.status(4, "--as", f.name)
	f.Expect(found.Problem).To(ContainSubstring("LoadTestRun"))
	f.Expect(found.Kinds).To(ContainElement(And(HaveField("Kind", "LoadTestRun"), HaveField("Forbidden", true))))
}

// A hub without any object is said to be so.
func TestStatusOfAnEmptyHubSaysThatNothingWasJudged(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	r := f.hollow("status")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("only the hub was checked"))
	f.Expect(f.status(0).Objects).To(BeEmpty())
}

// emptyHub removes what other tests have left.
func (f *env) emptyHub() {
	f.T.Helper()
	f.Eventually(func() (int, error) { return f.emptyKinds(f.T.Context()) }).WithTimeout(patience).Should(BeZero())
}

// emptyKinds deletes all objects of all kinds that there are, whatever holds them, and returns how many it has found.
func (f *env) emptyKinds(ctx context.Context) (found int, err error) {
	for _, kind := range health.Kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind.Kind + "List"))
		if err := f.Client.List(ctx, list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return 0, err
		}
		for i := range list.Items {
			left := &list.Items[i]
			left.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind.Kind))
			free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			err := errors.Join(client.IgnoreNotFound(f.Client.Patch(ctx, left, free)), client.IgnoreNotFound(testenv.Server().Remove(ctx, left)))
			if err != nil {
				return 0, err
			}
		}
		found += len(list.Items)
	}
	return found, nil
}
