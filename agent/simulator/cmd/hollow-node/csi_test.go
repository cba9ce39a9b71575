package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
)

// csiName is the CSI driver of the tests.
const csiName = "csi.example.com"

// withStorage is a configuration whose Node is in a zone, and can have so many volumes.
func withStorage(name string, volumes int32) contract.Configuration {
	configuration, fidelity := configurationOf(name), contract.Fast()
	fidelity.Kubelet.NodeStatusUpdateFrequency = seconds(1)
	configuration.Fidelity = &fidelity
	configuration.Labels = map[string]string{corev1.LabelTopologyZone: "zone-of-" + name}
	configuration.CSIDrivers = []contract.CSIDriver{{Name: csiName, MaxVolumesPerNode: volumes, TopologyKeys: []string{corev1.LabelTopologyZone}}}
	return configuration
}

// offerStorage makes the CSIDriver, and a volume in the node's zone with its claim for each name. A volume has these attributes.
func (p *process) offerStorage(t *testing.T, attributes map[string]string, names ...string) {
	t.Helper()
	_, err := p.client.StorageV1().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: csiName}, Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for _, name := range names {
		modes, size := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		_, err := p.client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: p.name + "-" + name},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size, AccessModes: modes, StorageClassName: "by-hand", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: csiName, VolumeHandle: p.name + "-" + name, FSType: "ext4", VolumeAttributes: attributes,
				}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-of-" + p.name},
					}},
				}}}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: p.name + "-" + name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: modes, StorageClassName: ptr.To("by-hand"), VolumeName: p.name + "-" + name,
				Resources: corev1.VolumeResourceRequirements{Requests: size},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mounting lets a pod have a volume that the kubelet would have to give to the pod's group.
func (p *process) mounting(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To(int64(2000))}
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.name + "-" + name},
		}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data", SubPath: "below"}}
	}
}

// hasStorage expects the driver in the CSINode of the Node.
func (p *process) hasStorage(volumes int32) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err != nil {
			return err
		}
		found, err := p.client.StorageV1().CSINodes().Get(ctx, p.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(found.OwnerReferences) != 1 || found.OwnerReferences[0].UID != node.UID || len(found.Spec.Drivers) != 1 {
			return fmt.Errorf("the CSINode of %+v has %+v, want one driver of Node %s", found.OwnerReferences, found.Spec.Drivers, node.UID)
		}
		driver := found.Spec.Drivers[0]
		if driver.Name != csiName || driver.NodeID != p.name || !slices.Equal(driver.TopologyKeys, []string{corev1.LabelTopologyZone}) ||
			driver.Allocatable == nil || ptr.Deref(driver.Allocatable.Count, 0) != volumes {
			return fmt.Errorf("the driver is %+v, want %d volumes and a zone", driver, volumes)
		}
		return nil
	}
}

// publishedVolumes are the directories of the node's volumes.
func (p *process) publishedVolumes(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(p.stateDir(), "kubelet", "pods", "*", "volumes", "kubernetes.io~csi", "*", "mount"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Claim: A Node has its CSI driver in a CSINode, a pod with a claim runs, the scheduler keeps the limit of volumes, and a restarted kubelet unmounts what the one before has mounted. Broken: no driver registers; the limit is left out; a volume stays after its pod.
func TestAKubeletHasVolumesOfACSIDriver(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withStorage("storage", 2), goodToken)
	p.offerStorage(t, nil, "0", "1", "2")
	p.join(t)
	eventually(t, "the driver registers", 30*time.Second, p.hasStorage(2))
	first := p.create(t, p.scheduled("first", p.mounting("0")), isReady)
	p.create(t, p.scheduled("second", p.mounting("1")), isReady)
	third := p.create(t, p.scheduled("third", p.mounting("2")), isUnschedulable)
	if got := p.publishedVolumes(t); len(got) != 2 {
		t.Errorf("published are %q, want two volumes", got)
	}

	p.restartKubelet(t, 2)
	p.deleteAndWait(t, first.Name)
	p.await(t, third.Name, isReady)
	eventually(t, "the volume of the first pod is gone", 30*time.Second, func(context.Context) error {
		if got := p.publishedVolumes(t); len(got) != 2 {
			return fmt.Errorf("published are %q, want those of the second and the third pod", got)
		}
		return nil
	})
	eventually(t, "the driver is still registered", 30*time.Second, p.hasStorage(2))
}

// Claim: A Node that was deleted and is registered again has its CSINode again. Broken: the first Node's alone is made.
func TestANodeThatIsRegisteredAgainHasItsCSINode(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withStorage("storage-again", 3), goodToken)
	before := p.join(t)
	eventually(t, "the driver registers", 30*time.Second, p.hasStorage(3))
	if err := p.client.CoreV1().Nodes().Delete(t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Node is registered again", time.Minute, func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err == nil && node.UID == before.UID {
			err = errors.New("it is still there")
		}
		return err
	})
	eventually(t, "the CSINode is that of the new Node", 30*time.Second, p.hasStorage(3))
	throughout(t, "it stays", 5*time.Second, p.hasStorage(3))
}

// Claim: A volume with the attribute mount-fails keeps its pod waiting, with that text in an event. Broken: the attribute is not read.
func TestAVolumeFailsToMount(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withStorage("storage-fails", 2), goodToken)
	p.offerStorage(t, map[string]string{contract.MountFails: "the disk is broken"}, "0")
	p.join(t)
	eventually(t, "the driver registers", 30*time.Second, p.hasStorage(2))
	pod := p.scheduled("waits", p.mounting("0"))
	p.submit(t, pod)
	eventually(t, "the kubelet says so", time.Minute, p.hasEvent("waits", "the disk is broken"))
	p.await(t, pod.Name, func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodPending {
			return fmt.Errorf("the pod is %s", pod.Status.Phase)
		}
		return nil
	})
}

// Claim: Nodes of a pack have CSI drivers of their own, which stay when another node ends, and one without any has no CSINode. Broken: the sockets are in one map by the driver's name; a CSINode is that of another node.
func TestNodesOfAPackHaveCSIDrivers(t *testing.T) {
	t.Parallel()
	c, in := realCluster(t), startPack(t)
	nodes := []*process{
		newProcess(t, c, withStorage("storage-0", 2), goodToken),
		newProcess(t, c, withStorage("storage-1", 3), goodToken),
		newProcess(t, c, configurationOf("storage-none"), goodToken),
	}
	var packed []*pack.Node
	for _, p := range nodes {
		node := p.startIn(t, in)
		t.Cleanup(func() { node.Signal(syscall.SIGKILL) })
		packed = append(packed, node)
		p.approve(t)
		p.readyNode(t)
	}
	nodes[0].offerStorage(t, nil, "0")
	nodes[1].offerStorage(t, nil, "0", "1")
	eventually(t, "the first registers its driver", 30*time.Second, nodes[0].hasStorage(2))
	eventually(t, "the second registers its driver", 30*time.Second, nodes[1].hasStorage(3))
	for _, p := range nodes[:2] {
		p.create(t, p.scheduled("one", p.mounting("0")), isReady)
		if got := p.publishedVolumes(t); len(got) != 1 {
			t.Errorf("node %s has published %q, want one volume", p.name, got)
		}
	}
	_, err := c.client.StorageV1().CSINodes().Get(t.Context(), nodes[2].name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the node without drivers has a CSINode: %v", err)
	}
	if _, err := os.Stat(filepath.Join(nodes[2].stateDir(), "csi")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the node without drivers has their directory: %v", err)
	}
	packed[0].Signal(syscall.SIGTERM)
	<-packed[0].Done()
	nodes[1].create(t, nodes[1].scheduled("another", nodes[1].mounting("1")), isReady)
	nodes[1].deleteAndWait(t, nodes[1].name+"-one")
}
