package volume

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const driverName = "csi.example.com"

// testFacts are those of a claim that waits for a pod, on a Node of zone a.
func testFacts(change func(*facts)) facts {
	f := facts{
		claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "data", UID: "u1",
				Annotations: map[string]string{provisionerAnnotation: driverName, selectedNodeAnnotation: "n1"},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("fast"),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}},
			},
		},
		class: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driverName, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			Parameters:    map[string]string{fileSystemParameter: "xfs", "hollowfleet.io/mount-fails": "broken"},
			ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimRetain), MountOptions: []string{"noatime"},
		},
		driver: &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)}},
		node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "a"}}},
		csiNode: &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: driverName, NodeID: "n1", TopologyKeys: []string{corev1.LabelTopologyZone}},
		}}},
	}
	if change != nil {
		change(&f)
	}
	return f
}

// Claim: A claim gets a volume of its size, class and place, once the scheduler has selected a Node with the driver; what cannot be made is said with field and remedy. Broken: a volume before the Node is selected; no place; a block volume; a CSIDriver whose volumes are attached.
func TestWhatAClaimGets(t *testing.T) {
	for name, test := range map[string]struct {
		change              func(*facts)
		reschedule, problem string
	}{
		"of another provisioner": {change: func(f *facts) { f.claim.Annotations[provisionerAnnotation] = "other.example.com" }},
		"bound":                  {change: func(f *facts) { f.claim.Spec.VolumeName = "v" }},
		"being deleted":          {change: func(f *facts) { f.claim.DeletionTimestamp = ptr.To(metav1.Now()) }},
		"no Node yet":            {change: func(f *facts) { delete(f.claim.Annotations, selectedNodeAnnotation) }},
		"no class":               {change: func(f *facts) { f.class = nil }, problem: "spec.storageClassName: no StorageClass of provisioner csi.example.com has that name: create it"},
		"a block volume":         {change: func(f *facts) { f.claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, problem: "spec.volumeMode: block volumes are not simulated: use Filesystem"},
		"a copy":                 {change: func(f *facts) { f.claim.Spec.DataSource = &corev1.TypedLocalObjectReference{} }, problem: "spec.dataSource: volumes are empty and cannot be copied: remove it"},
		"a selector":             {change: func(f *facts) { f.claim.Spec.Selector = &metav1.LabelSelector{} }, problem: "spec.selector: a volume that is made for the claim has no labels: remove it"},
		"an attached driver":     {change: func(f *facts) { f.driver.Spec.AttachRequired = nil }, problem: "CSIDriver csi.example.com has attachRequired: true, and nothing attaches volumes: delete it, and the agent makes it again"},
		"a Node that is gone":    {change: func(f *facts) { f.node = nil }, reschedule: "Node n1 or its CSINode is gone"},
		"a Node without driver":  {change: func(f *facts) { f.csiNode.Spec.Drivers = nil }, reschedule: "driver csi.example.com is not on Node n1"},
		"a Node without zone":    {change: func(f *facts) { f.node.Labels = nil }, reschedule: "Node n1 does not have the label topology.kubernetes.io/zone"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := decide(testFacts(test.change), []string{driverName})
			g.Expect(got).To(Equal(plan{reschedule: test.reschedule, problem: test.problem}))
		})
	}

	g := NewWithT(t)
	got := decide(testFacts(func(f *facts) { f.driver = nil }), []string{driverName})
	g.Expect(got.makeDriver).To(BeTrue())
	spec := got.volume.Spec
	g.Expect(got.volume.Name).To(Equal("pvc-u1"))
	g.Expect(spec.Capacity.Storage().String()).To(Equal("3Gi"))
	g.Expect(spec.PersistentVolumeReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimRetain))
	g.Expect(spec.StorageClassName).To(Equal("fast"))
	g.Expect(spec.MountOptions).To(Equal([]string{"noatime"}))
	g.Expect(spec.ClaimRef.UID).To(BeEquivalentTo("u1"))
	g.Expect(spec.CSI).To(Equal(&corev1.CSIPersistentVolumeSource{
		Driver: driverName, VolumeHandle: "hollow-u1", FSType: "xfs", VolumeAttributes: map[string]string{"hollowfleet.io/mount-fails": "broken"},
	}))
	g.Expect(spec.NodeAffinity).To(Equal(affinityOf(map[string]string{corev1.LabelTopologyZone: "a"})))

	immediate := decide(testFacts(func(f *facts) {
		f.class.VolumeBindingMode, f.class.ReclaimPolicy, f.class.Parameters = nil, nil, nil
		delete(f.claim.Annotations, selectedNodeAnnotation)
		f.class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelTopologyZone, Values: []string{"b", "c"}},
		}}}
	}), []string{driverName}).volume.Spec
	g.Expect(immediate.NodeAffinity).To(Equal(affinityOf(map[string]string{corev1.LabelTopologyZone: "b"})))
	g.Expect(immediate.PersistentVolumeReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimDelete))
	g.Expect(immediate.CSI.FSType).To(Equal("ext4"))
}

// Claim: Only a volume is deleted that the agent has made, whose claim is gone and whose policy is Delete. Broken: a volume made by hand; one with policy Retain; one that is bound; one of another driver.
func TestWhichVolumesAreDeleted(t *testing.T) {
	g := NewWithT(t)
	released := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		volume := decide(testFacts(func(f *facts) { f.class.ReclaimPolicy = nil }), []string{driverName}).volume
		volume.Status.Phase = corev1.VolumeReleased
		if change != nil {
			change(volume)
		}
		return volume
	}
	g.Expect(isReleased(released(nil), []string{driverName})).To(BeTrue())
	for name, change := range map[string]func(*corev1.PersistentVolume){
		"bound": func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound },
		"kept": func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		},
		"being deleted":     func(v *corev1.PersistentVolume) { v.DeletionTimestamp = ptr.To(metav1.Now()) },
		"made by hand":      func(v *corev1.PersistentVolume) { v.Spec.CSI.VolumeHandle = "vol-1" },
		"another name":      func(v *corev1.PersistentVolume) { v.Name = "vol-1" },
		"of another driver": func(v *corev1.PersistentVolume) { v.Spec.CSI.Driver = "other.example.com" },
		"not provisioned":   func(v *corev1.PersistentVolume) { v.Annotations = nil },
		"no CSI volume":     func(v *corev1.PersistentVolume) { v.Spec.CSI = nil },
		"of no claim":       func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil },
		"of another claim":  func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "u2" },
	} {
		g.Expect(isReleased(released(change), []string{driverName})).To(BeFalse(), name)
	}
}
