package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// kubeletStarts expects so many events of kubelets of the node that started.
func (p *process) kubeletStarts(want int) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := p.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + p.name + ",reason=Starting"})
		if err != nil {
			return err
		}
		got := 0
		for _, event := range list.Items {
			got += int(max(event.Count, 1))
		}
		if got < want {
			return fmt.Errorf("%d kubelets have started, want %d", got, want)
		}
		return nil
	}
}

// restartKubelet starts the kubelet again, and expects its process to live.
func (p *process) restartKubelet(t *testing.T, starts int) {
	t.Helper()
	fault := lasting(10*time.Minute, plan.Fault{Type: plan.RestartKubelet})
	fault.HealthyFor = seconds(2)
	p.disrupt(t, fault)
	eventually(t, "the kubelet starts again", time.Minute, p.kubeletStarts(starts))
	if p.command.ProcessState != nil {
		t.Fatal("the process has ended")
	}
}

// Claim: A kubelet that starts again keeps its containers and boot ID; a Node registered once stays deleted until then. Broken: another boot ID; containers are made again; the Node is registered again by the kubelet that was there.
func TestAKubeletStartsAgainWithItsContainers(t *testing.T) {
	t.Parallel()
	configuration, fidelity := configurationOf("kubelet-restart"), contract.Fast()
	fidelity.RegisterOnce, fidelity.Kubelet.NodeStatusUpdateFrequency = true, seconds(1)
	configuration.Fidelity = &fidelity
	p := newProcess(t, realCluster(t), configuration, goodToken)
	before := p.join(t)
	pod := p.create(t, p.pod("stays"), isReady)
	leaves := p.create(t, p.pod("leaves"), isReady)

	p.restartKubelet(t, 2)
	p.deleteAndWait(t, leaves.Name) // by the kubelet that is there now
	p.create(t, p.pod("new"), isReady)
	after := p.readyNode(t)
	if after.UID != before.UID || after.Status.NodeInfo.BootID != before.Status.NodeInfo.BootID {
		t.Errorf("UID %s, boot ID %s, want %s, %s", after.UID, after.Status.NodeInfo.BootID, before.UID, before.Status.NodeInfo.BootID)
	}
	found, err := p.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || isReady(found) != nil {
		t.Fatalf("the pod: %v, %v", err, isReady(found))
	}
	if got, want := found.Status.ContainerStatuses[0], pod.Status.ContainerStatuses[0]; got.ContainerID != want.ContainerID || got.RestartCount != 0 {
		t.Errorf("container %s, restarted %d times, want %s", got.ContainerID, got.RestartCount, want.ContainerID)
	}

	if err := p.client.CoreV1().Nodes().Delete(t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	throughout(t, "the Node stays deleted", 6*time.Second, func(ctx context.Context) error {
		if _, err := p.client.CoreV1().Nodes().Get(ctx, p.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	p.restartKubelet(t, 3)
	if again := p.readyNode(t); again.UID == before.UID {
		t.Error("the Node was not deleted")
	}
}

// What a disruption says when its window is over has no effect.
func TestARestartOfTheKubeletEndsWithTheProcess(t *testing.T) {
	longOnly(t)
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("restarts"), goodToken)
	p.join(t)
	fault := lasting(10*time.Minute, plan.Fault{Type: plan.RestartKubelet})
	fault.HealthyFor, fault.UnhealthyFor = seconds(3), seconds(1)
	p.disrupt(t, fault)
	eventually(t, "the kubelet starts again and again", 2*time.Minute, p.kubeletStarts(5))
	if code, took := p.terminate(t); code != 0 || took > 10*time.Second {
		t.Errorf("SIGTERM ended the process with %d after %s", code, took)
	}
}

// evicting is the configuration of a node with thresholds.
func evicting(name string, hard map[string]string) contract.Configuration {
	configuration, fidelity := configurationOf(name), contract.Fast()
	fidelity.Kubelet.NodeStatusUpdateFrequency = seconds(1)
	configuration.Fidelity = &fidelity
	configuration.KubeletConfiguration = &contract.KubeletConfiguration{Evictions: &contract.Evictions{Hard: hard, TransitionPeriod: seconds(3)}}
	return configuration
}

// Claim: The kubelet's eviction manager evicts by the memory that pods say they use. Broken: the loop of the manager rests.
func TestPodsAreEvictedForTheMemoryThatTheyUse(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), evicting("evicts", map[string]string{"memory.available": "8Gi"}), goodToken)
	p.join(t)
	uses := func(memory string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations = map[string]string{"hollowfleet.io/memory-usage": memory} }
	}
	requests := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *newQuantity(6 << 30)}
	}
	calm := p.create(t, p.pod("calm", uses("5Gi"), requests), isReady)
	limited := p.create(t, p.pod("limited", uses("curve 0s=1Mi 2s=100Mi"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *newQuantity(64 << 20)}
	}), func(pod *corev1.Pod) error {
		for _, status := range pod.Status.ContainerStatuses {
			if ended := status.LastTerminationState.Terminated; ended != nil && ended.Reason == "OOMKilled" && ended.ExitCode == 137 {
				return nil
			}
		}
		return errors.New("not killed for its memory")
	})
	if err := p.condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "")(t.Context()); err != nil {
		t.Error(err)
	}
	hog := p.create(t, p.pod("hog", uses("5Gi")), func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" {
			return errors.New("not evicted")
		}
		return nil
	})
	t.Logf("%s: %s; beside %s", hog.Name, hog.Status.Message, limited.Name)
	eventually(t, "the Node is under pressure, and then is not", time.Minute, p.condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, ""))
	found, err := p.client.CoreV1().Pods("default").Get(t.Context(), calm.Name, metav1.GetOptions{})
	if err != nil || isReady(found) != nil {
		t.Errorf("the pod within its request: %v, %+v", err, found.Status)
	}
}

// Claim: A disruption's Pressure holds on a node with thresholds, and ends. Broken: the manager's next look takes it away; it stays for good.
func TestThePressureOfADisruptionHoldsBesideThresholds(t *testing.T) {
	longOnly(t)
	t.Parallel()
	p := newProcess(t, realCluster(t), evicting("pressed", map[string]string{"memory.available": "1Gi"}), goodToken)
	p.join(t)
	pod := p.create(t, p.pod("stays"), isReady)
	p.disrupt(t, lasting(35*time.Second, plan.Fault{Type: plan.Pressure, Pressure: &plan.PressureParameters{Resources: []plan.PressureResource{plan.PressureMemory}}}))
	pressed := p.condition(corev1.NodeMemoryPressure, corev1.ConditionTrue, "")
	eventually(t, "the pressure is there", 10*time.Second, pressed)
	throughout(t, "the pressure stays", 20*time.Second, pressed)
	eventually(t, "the pressure ends", time.Minute, p.condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, ""))
	if found, err := p.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || isReady(found) != nil {
		t.Errorf("the pod: %v", err)
	}
}

// Claim: The kubelet's eviction manager evicts pods for what they write: over their limits, and by the Node's disk. Broken: writable layers are empty; limits are not looked at.
func TestPodsAreEvictedForWhatTheyWrite(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), evicting("writes", map[string]string{"nodefs.available": "50Gi"}), goodToken)
	p.join(t)
	writes := func(amount string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{"hollowfleet.io/ephemeral-storage-usage": amount}
		}
	}
	evicted := func(message string) func(*corev1.Pod) error {
		return func(pod *corev1.Pod) error {
			if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" || !strings.Contains(pod.Status.Message, message) {
				return fmt.Errorf("not evicted with %q", message)
			}
			return nil
		}
	}
	calm := p.create(t, p.pod("calm", writes("5Gi")), isReady)
	p.create(t, p.pod("limited", writes("curve 0s=1Mi 3s=2Gi"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: *newQuantity(1 << 30)}
	}), evicted("ephemeral local storage usage exceeds the total limit of containers"))
	p.create(t, p.pod("hog", writes("60Gi")), evicted("low on resource: ephemeral-storage"))
	found, err := p.client.CoreV1().Pods("default").Get(t.Context(), calm.Name, metav1.GetOptions{})
	if err != nil || isReady(found) != nil {
		t.Errorf("the pod that writes less: %v, %+v", err, found.Status)
	}
}
