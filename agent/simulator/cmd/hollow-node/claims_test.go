package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// gpuDriver is the DRA driver of the test, and the DeviceClass of its devices.
const gpuDriver = "gpu.example.com"

// withClaims is a configuration with so many GPUs of a DRA driver.
func withClaims(name string, count int32) contract.Configuration {
	configuration, fidelity := configurationOf(name), contract.Fast()
	fidelity.Kubelet.NodeStatusUpdateFrequency = seconds(1)
	configuration.Fidelity = &fidelity
	configuration.Devices = []contract.Devices{{
		Driver: gpuDriver, Count: count,
		Attributes: map[string]resourcev1.DeviceAttribute{"model": {StringValue: ptr.To("A100")}},
		Capacity:   map[string]resource.Quantity{"memory": resource.MustParse("80Gi")},
	}}
	return configuration
}

// offerGPUs makes the DeviceClass, and the template of claims for one GPU that it has.
func (c *cluster) offerGPUs(t *testing.T) {
	t.Helper()
	api := c.client.ResourceV1()
	_, err := api.DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: gpuDriver},
		Spec:       resourcev1.DeviceClassSpec{Selectors: selectDevices(`device.driver == "gpu.example.com"`)},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	selectors := selectDevices(`device.attributes["gpu.example.com"].model == "A100" && device.capacity["gpu.example.com"].memory == quantity("80Gi")`)
	_, err = api.ResourceClaimTemplates("default").Create(t.Context(), &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: gpuDriver, Selectors: selectors}}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func selectDevices(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

func claimsGPU(pod *corev1.Pod) {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
}

// publishes expects so many devices in the ResourceSlices of the Node, and so many of them with a taint.
func (p *process) publishes(devices, tainted int) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err != nil {
			return err
		}
		list, err := p.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourcev1.ResourceSliceSelectorNodeName + "=" + p.name})
		if err != nil {
			return err
		}
		published, taints := 0, 0
		for i := range list.Items {
			slice := &list.Items[i]
			if len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].UID != node.UID || slice.Spec.Pool.Name != p.name {
				return fmt.Errorf("the slice is that of %+v, pool %q, want the Node %s", slice.OwnerReferences, slice.Spec.Pool.Name, node.UID)
			}
			for _, device := range slice.Spec.Devices {
				published, taints = published+1, taints+len(device.Taints)
			}
		}
		if published != devices || taints != tainted {
			return fmt.Errorf("%d devices with %d taints, want %d with %d", published, taints, devices, tainted)
		}
		return nil
	}
}

// allocatedDevice is the device of a pod with a claim, as the scheduler has allocated it.
func (p *process) allocatedDevice(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	found, err := p.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || len(found.Status.ResourceClaimStatuses) != 1 {
		t.Fatalf("the claim of pod %s: %+v, %v", pod.Name, found.Status.ResourceClaimStatuses, err)
	}
	claim, err := p.client.ResourceV1().ResourceClaims("default").Get(t.Context(), *found.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) != 1 {
		t.Fatalf("claim %s is not allocated: %+v", claim.Name, claim.Status)
	}
	result := claim.Status.Allocation.Devices.Results[0]
	if result.Driver != gpuDriver || result.Pool != p.name {
		t.Errorf("claim %s has %+v, want a device of node %s", claim.Name, result, p.name)
	}
	return result.Device
}

// preparedDevices are the prepared devices of each pod in the checkpoint of the kubelet's DRA manager.
func (p *process) preparedDevices(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.stateDir(), "dra", "dra_manager_state"))
	if err != nil {
		t.Fatal(err)
	}
	var checkpoint struct{ Data string }
	if err := json.Unmarshal(text, &checkpoint); err != nil {
		t.Fatal(err)
	}
	var data struct {
		ClaimInfoStateList []struct {
			PodUIDs     map[string]struct{}
			DriverState map[string]struct{ Devices []struct{ DeviceName string } }
		}
	}
	if err := json.Unmarshal([]byte(checkpoint.Data), &data); err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, entry := range data.ClaimInfoStateList {
		for pod := range entry.PodUIDs {
			for _, device := range entry.DriverState[gpuDriver].Devices {
				found[pod] = append(found[pod], device.DeviceName)
			}
		}
	}
	return found
}

// Claim: A Node's DRA driver publishes devices, the scheduler allocates claims to them, the kubelet prepares these, and a restarted one has them prepared. Broken: the checkpoint is lost with the kubelet.
func TestAKubeletPreparesClaims(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withClaims("prepared-claims", 2), goodToken)
	p.offerGPUs(t)
	p.join(t)
	eventually(t, "the driver publishes its devices", 30*time.Second, p.publishes(2, 0))
	first := p.create(t, p.scheduled("first", claimsGPU), isReady)
	second := p.create(t, p.scheduled("second", claimsGPU), isReady)
	third := p.create(t, p.scheduled("third", claimsGPU), isUnschedulable)
	before := p.preparedDevices(t)
	want := map[string][]string{string(first.UID): {p.allocatedDevice(t, first)}, string(second.UID): {p.allocatedDevice(t, second)}}
	if !maps.EqualFunc(before, want, slices.Equal) || slices.Equal(want[string(first.UID)], want[string(second.UID)]) {
		t.Errorf("prepared are %v, want %v, two devices", before, want)
	}

	p.restartKubelet(t, 2)
	eventually(t, "the devices are published again", 30*time.Second, p.publishes(2, 0))
	if after := p.preparedDevices(t); !maps.EqualFunc(after, want, slices.Equal) {
		t.Errorf("prepared are %v after the restart, want %v", after, want)
	}
	p.deleteAndWait(t, first.Name)
	p.await(t, third.Name, isReady)
	want = map[string][]string{string(third.UID): want[string(first.UID)], string(second.UID): want[string(second.UID)]}
	if got := p.preparedDevices(t); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("prepared are %v, want %v", got, want)
	}
}

// Claim: A Node that was deleted and is registered again has its ResourceSlices again. Broken: the first Node's alone are published.
func TestANodeThatIsRegisteredAgainHasItsSlices(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withClaims("claims-again", 70), goodToken)
	before := p.join(t)
	eventually(t, "the driver publishes its devices", 30*time.Second, p.publishes(70, 0))
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
	eventually(t, "the devices are those of the new Node", 30*time.Second, p.publishes(70, 0))
	throughout(t, "they stay", 5*time.Second, p.publishes(70, 0))
}

// Claim: A failed DRA device has a taint and is unhealthy in the status of its pod, with NoExecute the pod is evicted, and it heals. Broken: the taint is not published.
func TestDRADevicesFail(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withClaims("claims-fail", 2), goodToken)
	p.offerGPUs(t)
	p.join(t)
	eventually(t, "the driver publishes its devices", 30*time.Second, p.publishes(2, 0))
	pod := p.create(t, p.scheduled("stays", claimsGPU), isReady)

	fault := plan.Fault{Type: plan.DeviceFailure, DeviceFailure: &plan.DeviceFailureParameters{Name: gpuDriver}}
	p.disrupt(t, lasting(10*time.Minute, fault))
	eventually(t, "the devices have taints", 15*time.Second, p.publishes(2, 2))
	p.await(t, pod.Name, func(pod *corev1.Pod) error {
		if got := unhealthyDevices(pod); got != 1 {
			return fmt.Errorf("%d devices of the pod are unhealthy, want 1: %+v", got, pod.Status.ContainerStatuses)
		}
		return isReady(pod)
	})
	waits := p.create(t, p.scheduled("waits", claimsGPU), isUnschedulable)

	fault.DeviceFailure.Effect = resourcev1.DeviceTaintEffectNoExecute
	p.disrupt(t, lasting(20*time.Second, fault))
	eventually(t, "the pod is evicted", 20*time.Second, func(ctx context.Context) error {
		if _, err := p.client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("want it not found, got %s", fmt.Sprint(err))
		}
		return nil
	})
	eventually(t, "the devices are healthy again", time.Minute, p.publishes(2, 0))
	p.await(t, waits.Name, isReady)
}

// Claim: Nodes of a pack publish devices of their own, and one without any has nothing of it. Broken: a pool has the name of another node.
func TestNodesOfAPackPublishDevices(t *testing.T) {
	t.Parallel()
	c, in := realCluster(t), startPack(t)
	c.offerGPUs(t)
	nodes := []*process{
		newProcess(t, c, withClaims("claims-0", 2), goodToken),
		newProcess(t, c, withClaims("claims-1", 1), goodToken),
		newProcess(t, c, configurationOf("claims-none"), goodToken),
	}
	for _, p := range nodes {
		packed := p.startIn(t, in)
		t.Cleanup(func() { packed.Signal(syscall.SIGKILL) })
		p.approve(t)
		p.readyNode(t)
	}
	eventually(t, "the first publishes", 30*time.Second, nodes[0].publishes(2, 0))
	eventually(t, "the second publishes", 30*time.Second, nodes[1].publishes(1, 0))
	eventually(t, "the third does not", 30*time.Second, nodes[2].publishes(0, 0))
	if _, err := os.Stat(filepath.Join(nodes[2].stateDir(), "dra")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the node without devices has their directory: %v", err)
	}
	for _, p := range nodes[:2] {
		pod := p.create(t, p.scheduled("one", claimsGPU), isReady)
		if got, want := p.preparedDevices(t), p.allocatedDevice(t, pod); len(got) != 1 || strings.Join(got[string(pod.UID)], " ") != want {
			t.Errorf("prepared by %s: %v, want %s of one pod", p.name, got, want)
		}
	}
	nodes[0].disrupt(t, lasting(time.Minute, plan.Fault{Type: plan.DeviceFailure}))
	eventually(t, "the devices of the first fail", 15*time.Second, nodes[0].publishes(2, 2))
	throughout(t, "those of the second do not", 3*time.Second, nodes[1].publishes(1, 0))
}
