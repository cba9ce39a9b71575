package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

const gpu corev1.ResourceName = "example.com/gpu"

// withDevices is a configuration with so many GPUs, whose Node reports at once what changes.
func withDevices(name string, count int32) contract.Configuration {
	configuration, fidelity := configurationOf(name), contract.Fast()
	fidelity.Kubelet.NodeStatusUpdateFrequency = seconds(1)
	configuration.Fidelity = &fidelity
	delete(configuration.Capacity, gpu)
	configuration.Devices = []contract.Devices{{Resource: string(gpu), Count: count}}
	return configuration
}

// scheduled is a pod that the scheduler has to bind to the node.
func (p *process) scheduled(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := p.pod(name, change...)
	pod.Spec.NodeName, pod.Spec.NodeSelector = "", map[string]string{corev1.LabelHostname: p.name}
	return pod
}

func wantsGPUs(count int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: *newQuantity(count)}
	}
}

// hasGPUs expects what the Node says of its devices.
func (p *process) hasGPUs(capacity, allocatable int64) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err != nil {
			return err
		}
		has, can := node.Status.Capacity[gpu], node.Status.Allocatable[gpu]
		if has.Value() != capacity || can.Value() != allocatable {
			return fmt.Errorf("capacity %s, allocatable %s, want %d, %d", has.String(), can.String(), capacity, allocatable)
		}
		return nil
	}
}

// allocations are the devices of each pod in the checkpoint of the kubelet's device manager.
func (p *process) allocations(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.stateDir(), "device-plugins", "kubelet_internal_checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	var checkpoint struct {
		Data struct {
			PodDeviceEntries []struct {
				PodUID    string
				DeviceIDs map[string][]string
			}
		}
	}
	if err := json.Unmarshal(text, &checkpoint); err != nil {
		t.Fatal(err)
	}
	found, owners := map[string][]string{}, map[string]string{}
	for _, entry := range checkpoint.Data.PodDeviceEntries {
		for _, ids := range entry.DeviceIDs {
			for _, id := range ids {
				found[entry.PodUID] = append(found[entry.PodUID], id)
				if owner, taken := owners[id]; taken {
					t.Errorf("device %s is that of pod %s and of pod %s", id, owner, entry.PodUID)
				}
				owners[id] = entry.PodUID
			}
		}
		slices.Sort(found[entry.PodUID])
	}
	return found
}

func isUnschedulable(pod *corev1.Pod) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
			return nil
		}
	}
	return errors.New("not refused by the scheduler")
}

// unhealthyDevices counts the devices of a pod that its status calls unhealthy.
func unhealthyDevices(pod *corev1.Pod) (count int) {
	for _, container := range pod.Status.ContainerStatuses {
		for _, resource := range container.AllocatedResourcesStatus {
			for _, device := range resource.Resources {
				if device.Health == corev1.ResourceHealthStatusUnhealthy {
					count++
				}
			}
		}
	}
	return count
}

// Claim: A Node's devices are allocated by the kubelet's device manager, a restarted kubelet keeps the allocation, and failed ones leave allocatable. Broken: capacity without a plugin; the checkpoint is lost with the kubelet; the plugin reports no health.
func TestAKubeletAllocatesDevices(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withDevices("devices", 8), goodToken)
	p.join(t)
	eventually(t, "the Node has devices", 30*time.Second, p.hasGPUs(8, 8))
	var pods []*corev1.Pod
	for i := range 4 {
		pods = append(pods, p.create(t, p.scheduled(fmt.Sprintf("two-%d", i), wantsGPUs(2)), isReady))
	}
	ninth := p.create(t, p.scheduled("ninth", wantsGPUs(1)), isUnschedulable)
	before := p.allocations(t)
	for _, pod := range pods {
		if got := before[string(pod.UID)]; len(got) != 2 {
			t.Errorf("pod %s has the devices %v, want 2", pod.Name, got)
		}
	}

	p.restartKubelet(t, 2)
	eventually(t, "the Node has its devices again", 30*time.Second, p.hasGPUs(8, 8))
	p.deleteAndWait(t, pods[0].Name)
	p.await(t, ninth.Name, isReady)
	after := p.allocations(t)
	for _, pod := range pods[1:] {
		if got, want := after[string(pod.UID)], before[string(pod.UID)]; !slices.Equal(got, want) {
			t.Errorf("pod %s has the devices %v after the restart, want %v", pod.Name, got, want)
		}
	}
	if got, of := after[string(ninth.UID)], before[string(pods[0].UID)]; len(got) != 1 || !slices.Contains(of, got[0]) {
		t.Errorf("the ninth has %v, want one of %v", got, of)
	}

	p.disrupt(t, lasting(20*time.Second, plan.Fault{Type: plan.DeviceFailure, DeviceFailure: &plan.DeviceFailureParameters{Name: string(gpu), Count: 3}}))
	eventually(t, "three devices fail", 15*time.Second, p.hasGPUs(8, 5))
	eventually(t, "pods say so", 15*time.Second, func(ctx context.Context) error {
		list, err := p.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + p.name})
		if err != nil {
			return err
		}
		failed := 0
		for i := range list.Items {
			failed += unhealthyDevices(&list.Items[i])
		}
		if failed < 2 { // One device is that of no pod.
			return fmt.Errorf("%d devices of pods are unhealthy, want 2 or 3", failed)
		}
		return nil
	})
	eventually(t, "the devices are healthy again", time.Minute, p.hasGPUs(8, 8))
}

// Claim: Pods keep their devices when the process of their node starts again. Broken: pods are admitted before the plugin has registered.
func TestDevicesAreThereBeforePods(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withDevices("devices-reboot", 2), goodToken)
	p.join(t)
	pod := p.create(t, p.pod("stays", wantsGPUs(2)), isReady)
	before := p.allocations(t)[string(pod.UID)]
	if code, _ := p.terminate(t); code != 0 {
		t.Fatalf("the process ended with %d", code)
	}
	p.start(t)
	eventually(t, "the pod runs again", time.Minute, func(ctx context.Context) error {
		found, err := p.client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if found.Status.ContainerStatuses[0].ContainerID == pod.Status.ContainerStatuses[0].ContainerID {
			return fmt.Errorf("the container is still the one before: %+v", found.Status)
		}
		return isReady(found)
	})
	if after := p.allocations(t)[string(pod.UID)]; !slices.Equal(before, after) {
		t.Errorf("the pod has the devices %v, want %v", after, before)
	}
}

// Claim: Nodes of a pack have devices of their own, and one without any has nothing of them. Broken: one directory for all nodes; a failure reaches the others; a directory is made for a node without devices.
func TestNodesOfAPackHaveDevices(t *testing.T) {
	t.Parallel()
	c, in := realCluster(t), startPack(t)
	nodes := []*process{
		newProcess(t, c, withDevices("devices-0", 8), goodToken),
		newProcess(t, c, withDevices("devices-1", 2), goodToken),
		newProcess(t, c, configurationOf("devices-none"), goodToken),
	}
	for _, p := range nodes {
		packed := p.startIn(t, in)
		t.Cleanup(func() { packed.Signal(syscall.SIGKILL) })
		p.approve(t)
		p.readyNode(t)
	}
	eventually(t, "the first has devices", 30*time.Second, nodes[0].hasGPUs(8, 8))
	eventually(t, "the second has devices", 30*time.Second, nodes[1].hasGPUs(2, 2))
	if _, err := os.Stat(filepath.Join(nodes[2].stateDir(), "device-plugins")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the node without devices has their directory: %v", err)
	}
	for _, p := range nodes[:2] {
		pod := p.create(t, p.scheduled("two", wantsGPUs(2)), isReady)
		if got := p.allocations(t); len(got) != 1 || len(got[string(pod.UID)]) != 2 {
			t.Errorf("allocations of %s: %v, want 2 devices of one pod", p.name, got)
		}
	}
	nodes[0].disrupt(t, lasting(time.Minute, plan.Fault{Type: plan.DeviceFailure}))
	eventually(t, "the devices of the first fail", 15*time.Second, nodes[0].hasGPUs(8, 0))
	throughout(t, "those of the second do not", 3*time.Second, nodes[1].hasGPUs(2, 2))
}
