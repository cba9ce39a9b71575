package script

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DeviceResource is the resource of the device plugin of both nodes, which has DeviceCount devices: on the real one Kubernetes' sample plugin.
const (
	DeviceResource = "example.com/resource"
	DeviceCount    = 2
)

func deviceSteps() []*Step {
	return []*Step{{Name: "devices", Row: rowDevices, Verdict: Adjustable, Run: inScene("devices", runDevices)}}
}

// withDevices lets the main container ask for devices.
func withDevices(count int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		main(pod).Resources.Limits = corev1.ResourceList{DeviceResource: *resource.NewQuantity(count, resource.DecimalSI)}
	}
}

// runDevices uses all devices of the node, and then asks for one more: of the scheduler, which waits, and of the kubelet, which refuses.
func runDevices(ctx context.Context, s *scene, r *Record) error {
	err := eventually(ctx, "the devices to be in the Node", func(ctx context.Context) (bool, error) {
		node, err := s.side.node(ctx)
		if err != nil {
			return false, err
		}
		capacity, allocatable := node.Status.Capacity[DeviceResource], node.Status.Allocatable[DeviceResource]
		r.fact("capacity, allocatable", fmt.Sprint(capacity.String(), ", ", allocatable.String()))
		return allocatable.Value() == DeviceCount, nil
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"first", "second"} {
		if err := s.play(ctx, r, s.side.newPod(name, nil, withDevices(1)), "Ready", isReady); err != nil {
			return err
		}
	}
	if err := s.describeDevices(ctx, r, "first"); err != nil {
		return err
	}
	if err := s.create(ctx, s.side.newPod("waiting", nil, withDevices(1))); err != nil {
		return err
	}
	_, err = s.until(ctx, "waiting", "refused by the scheduler", func(pod *corev1.Pod) bool {
		return strings.Contains(scheduledMessage(pod), "Insufficient "+DeviceResource)
	})
	if err != nil {
		return err
	}
	if err := s.play(ctx, r, s.side.newPod("excessive", nil, s.side.bound, onlyOnce, withDevices(1)), "over", isOver); err != nil {
		return err
	}
	excessive, err := s.existing(ctx, "excessive")
	if err != nil {
		return err
	}
	r.fact("excessive", fmt.Sprint(excessive.Status.Reason, ": ", excessive.Status.Message))
	if err := s.end(ctx, r, "first"); err != nil {
		return err
	}
	_, err = s.until(ctx, "waiting", "Ready", isReady)
	return err
}

// scheduledMessage is what the scheduler says of a pod that waits.
func scheduledMessage(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// describeDevices writes down what a pod's status says of its devices. Their names are the plugin's.
func (s *scene) describeDevices(ctx context.Context, r *Record, name string) error {
	pod, err := s.existing(ctx, name)
	if err != nil {
		return err
	}
	var all []string
	for _, allocated := range pod.Status.ContainerStatuses[0].AllocatedResourcesStatus {
		for _, one := range allocated.Resources {
			all = append(all, fmt.Sprint(allocated.Name, " ", one.Health))
		}
	}
	r.fact("devices in status", strings.Join(all, ", "))
	return nil
}
