package managedcluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
)

// exported is what a user has of an object who exports and applies it under another name.
func exported(from metav1.ObjectMeta, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: from.Labels, Annotations: from.Annotations}
}

// Claim: Copies of mirrors are the user's. Broken: the label alone tells the hub's own: the copies are written, and deleted. Also: TestAMirrorOfAnEarlierHubIsItsOwn, TestACopyOfAnImportedClusterIsMirrored; hub/internal/inventory/clusterprofile TestACopyOfAProfileIsTheUsers.
// Edge case: Copied mirrors were deleted. Also: hub/internal/inventory/clusterprofile TestACopyOfAProfileIsTheUsers.
func TestACopyOfAMirrorIsTheUsers(t *testing.T) {
	f := newEnv(t)
	f.cluster()
	f.settle()
	mirror := f.managed()

	another := newEnv(t)
	replica := &clusterv1.ManagedCluster{ObjectMeta: exported(mirror.ObjectMeta, another.named.Name), Spec: mirror.Spec}
	f.ExpectApplied(replica)
	another.settle()
	another.Expect(another.managed()).NotTo(BeNil(), "it was deleted, because no Cluster has its name")
	another.Expect(another.managed().ResourceVersion).To(Equal(replica.ResourceVersion))

	another.cluster()
	another.settle()
	another.Expect(another.managed().ResourceVersion).To(Equal(replica.ResourceVersion), "it was written, because a Cluster has its name")
	another.Expect(another.Events()).To(ContainElement(ContainSubstring("If it is a copy of one that the hub created, delete it there")))
	another.Expect(f.Client.Delete(t.Context(), another.managed())).To(Succeed())
	another.settle()
	another.Expect(another.managed().Annotations).To(HaveKeyWithValue(v1alpha1.PictureUIDAnnotation, string(another.managed().UID)))
}

// An earlier hub has written no record.
func TestAMirrorOfAnEarlierHubIsItsOwn(t *testing.T) {
	f := newEnv(t)
	cluster := f.cluster()
	f.foreign(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub})
	f.settle()
	f.Expect(f.managed().Annotations).To(HaveKeyWithValue(v1alpha1.PictureUIDAnnotation, string(f.managed().UID)))
	f.ExpectDeleted(cluster)
	f.settle()
	f.Expect(f.managed()).To(BeNil())
}

func TestACopyOfAnImportedClusterIsMirrored(t *testing.T) {
	f := newEnv(t)
	replica := healthy(f.named.Name)
	replica.Annotations = map[string]string{v1alpha1.ImportedFromAnnotation: foreignkinds.ManagedClusters.Definition + "/another"}
	f.ExpectApplied(replica)
	f.settle()
	f.Expect(f.managed()).NotTo(BeNil())
	f.Expect(f.Events()).To(BeEmpty())
}
