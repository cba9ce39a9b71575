package cli_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Edge case: `cluster list` names an undecodable Cluster.
func TestClusterListNamesAClusterThatCannotBeDecodedAndGoesOn(t *testing.T) {
	f := newEnv(t)
	bad := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.name + "-bad", Labels: map[string]string{"of": f.name}}}
	good := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.name + "-good", Labels: bad.Labels}}
	f.ExpectApplied(bad)
	f.ExpectApplied(good)
	t.Cleanup(func() {
		if err := f.Client.DeleteAllOf(context.Background(), bad, client.MatchingLabels(bad.Labels)); err != nil {
			t.Error(err)
		}
	})
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"heartbeat":{"graceSeconds":"a while"}}}`))
	f.Expect(testenv.Server().Loosely(t.Context(), func(ctx context.Context) error {
		return f.Client.Patch(ctx, bad.DeepCopy(), patch)
	}, "clusters.hollowfleet.io")).To(Succeed())

	for output, lists := range map[string]OmegaMatcher{
		"":         And(ContainSubstring(bad.Name), ContainSubstring(good.Name)),
		"-o name":  And(ContainSubstring(good.Name), Not(ContainSubstring(bad.Name))),
		"-o yaml":  And(ContainSubstring(good.Name), Not(ContainSubstring(bad.Name))),
		"-o wide ": And(ContainSubstring(bad.Name), ContainSubstring(good.Name)),
	} {
		r := f.hollow("cluster list -l of=NAME " + output)
		f.Expect(r.code).To(Equal(0), r.errOut)
		f.Expect(r.errOut).To(And(ContainSubstring("Cluster "+bad.Name+" cannot be decoded"), ContainSubstring("repair it with kubectl edit")), output)
		f.Expect(r.out).To(lists, output)
	}
}
