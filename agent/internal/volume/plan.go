package volume

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// provisionerAnnotation is on a claim, by the volume controller: who has to make its volume. selectedNodeAnnotation is by the
	// scheduler: the Node of the first pod. provisionedByAnnotation is on a volume.
	provisionerAnnotation   = "volume.kubernetes.io/storage-provisioner"
	selectedNodeAnnotation  = "volume.kubernetes.io/selected-node"
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"

	// parameterPrefix is what the parameters of a StorageClass start with that are for the provisioner.
	parameterPrefix     = "csi.storage.k8s.io/"
	fileSystemParameter = parameterPrefix + "fstype"
	defaultFileSystem   = "ext4"

	handlePrefix, namePrefix = "hollow-", "pvc-"
)

// facts are what a volume is made from. What is not there is nil.
type facts struct {
	claim *corev1.PersistentVolumeClaim
	class *storagev1.StorageClass
	// driver is the CSIDriver of the class's provisioner.
	driver *storagev1.CSIDriver
	// node is the one that the scheduler has selected, and csiNode has its drivers.
	node    *corev1.Node
	csiNode *storagev1.CSINode
}

// plan is what to do for a claim; nothing if it is empty.
type plan struct {
	// volume is made, and before it the CSIDriver if makeDriver is set.
	volume     *corev1.PersistentVolume
	makeDriver bool
	// reschedule says why the scheduler has to select another Node.
	reschedule string
	// problem says what a user has to change.
	problem string
}

// decide says what to do for a claim that a driver of these names has to provision.
func decide(f facts, drivers []string) plan {
	claim := f.claim
	if !isDue(claim, drivers) {
		return plan{}
	}
	if problem := f.findProblem(); problem != "" {
		return plan{problem: problem}
	}
	affinity, why := f.chooseTopology()
	switch {
	case why != "":
		return plan{reschedule: why}
	case f.waitsForPod() && claim.Annotations[selectedNodeAnnotation] == "":
		return plan{}
	}
	return plan{volume: f.newVolume(affinity), makeDriver: f.driver == nil}
}

// isDue reports whether one of the drivers has to make a volume for a claim.
func isDue(claim *corev1.PersistentVolumeClaim, drivers []string) bool {
	return claim.DeletionTimestamp.IsZero() && claim.Spec.VolumeName == "" && slices.Contains(drivers, claim.Annotations[provisionerAnnotation])
}

// findProblem says why no volume can be made; empty if one can.
func (f facts) findProblem() string {
	claim, provisioner := f.claim, f.claim.Annotations[provisionerAnnotation]
	switch {
	case f.class == nil || f.class.Provisioner != provisioner:
		return fmt.Sprintf("spec.storageClassName: no StorageClass of provisioner %s has that name: create it", provisioner)
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return "spec.volumeMode: block volumes are not simulated: use Filesystem"
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return "spec.dataSource: volumes are empty and cannot be copied: remove it"
	case claim.Spec.Selector != nil:
		return "spec.selector: a volume that is made for the claim has no labels: remove it"
	case f.driver != nil && (f.driver.Spec.AttachRequired == nil || *f.driver.Spec.AttachRequired):
		return fmt.Sprintf("CSIDriver %s has attachRequired: true, and nothing attaches volumes: delete it, and the agent makes it again", provisioner)
	}
	return ""
}

func (f facts) waitsForPod() bool {
	mode := f.class.VolumeBindingMode
	return mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
}

// chooseTopology says where the volume can be used; nil means everywhere. With why, the selected Node cannot have it.
func (f facts) chooseTopology() (affinity *corev1.VolumeNodeAffinity, why string) {
	selected := f.claim.Annotations[selectedNodeAnnotation]
	if selected == "" {
		return allowedTopology(f.class), ""
	}
	if f.node == nil || f.csiNode == nil {
		return nil, fmt.Sprintf("Node %s or its CSINode is gone", selected)
	}
	at := slices.IndexFunc(f.csiNode.Spec.Drivers, func(driver storagev1.CSINodeDriver) bool { return driver.Name == f.class.Provisioner })
	if at < 0 {
		return nil, fmt.Sprintf("driver %s is not on Node %s", f.class.Provisioner, selected)
	}
	segments := map[string]string{}
	for _, key := range f.csiNode.Spec.Drivers[at].TopologyKeys {
		value, has := f.node.Labels[key]
		if !has {
			return nil, fmt.Sprintf("Node %s does not have the label %s", selected, key)
		}
		segments[key] = value
	}
	return affinityOf(segments), ""
}

// allowedTopology is the first place that a StorageClass allows; nil if it allows all.
func allowedTopology(class *storagev1.StorageClass) *corev1.VolumeNodeAffinity {
	segments := map[string]string{}
	if len(class.AllowedTopologies) > 0 {
		for _, expression := range class.AllowedTopologies[0].MatchLabelExpressions {
			if len(expression.Values) > 0 {
				segments[expression.Key] = expression.Values[0]
			}
		}
	}
	return affinityOf(segments)
}

func affinityOf(segments map[string]string) *corev1.VolumeNodeAffinity {
	if len(segments) == 0 {
		return nil
	}
	var term corev1.NodeSelectorTerm
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{segments[key]},
		})
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
}

func (f facts) newVolume(affinity *corev1.VolumeNodeAffinity) *corev1.PersistentVolume {
	claim, class := f.claim, f.class
	policy, fileSystem := corev1.PersistentVolumeReclaimDelete, defaultFileSystem
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	if set := class.Parameters[fileSystemParameter]; set != "" {
		fileSystem = set
	}
	attributes := map[string]string{}
	for key, value := range class.Parameters {
		if !strings.HasPrefix(key, parameterPrefix) {
			attributes[key] = value
		}
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(claim.UID), Annotations: map[string]string{provisionedByAnnotation: class.Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: claim.Spec.AccessModes, PersistentVolumeReclaimPolicy: policy, StorageClassName: class.Name,
			MountOptions: class.MountOptions, NodeAffinity: affinity,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: class.Provisioner, VolumeHandle: handleOf(claim.UID), FSType: fileSystem, VolumeAttributes: attributes,
			}},
		},
	}
}

func nameOf(claim types.UID) string   { return namePrefix + string(claim) }
func handleOf(claim types.UID) string { return handlePrefix + string(claim) }

// isReleased reports whether a volume is one that the agent has made and may delete: its claim is gone, and its policy is Delete. That the
// agent has made it shows in what nothing can change later: driver and handle, with the name and the claim that they belong to.
func isReleased(volume *corev1.PersistentVolume, drivers []string) bool {
	source, claim := volume.Spec.CSI, volume.Spec.ClaimRef
	return volume.DeletionTimestamp.IsZero() && volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		source != nil && claim != nil && slices.Contains(drivers, source.Driver) &&
		volume.Annotations[provisionedByAnnotation] == source.Driver && source.VolumeHandle == handleOf(claim.UID) && volume.Name == nameOf(claim.UID)
}
