package hollownode

import (
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
)

const (
	defaultRuntimeName = "hollow"
	// podCIDRGrace is how long a node waits for its pod CIDR. A controller that gives out CIDRs takes
	// seconds even when many nodes join; without one the node would wait forever.
	podCIDRGrace = 15 * time.Second
)

// newRuntime makes the container runtime of a configuration.
func newRuntime(c contract.Configuration, options Options, pods *podIndex) *fakecri.Runtime {
	name, version := c.ContainerRuntimeName, c.ContainerRuntimeVersion
	if name == "" {
		name = defaultRuntimeName
	}
	if version == "" {
		version = strings.TrimPrefix(kubeletversion.BuiltIn(), "v")
	}
	return fakecri.New(fakecri.Options{
		Name:            name,
		Version:         version,
		FallbackPodCIDR: fallbackPodCIDR(options.BindAddress, c.NodeName),
		PodCIDRGrace:    podCIDRGrace,
		RoleOf:          pods.roleOf,
		RequestsOf:      pods.requestsOf,

		TerminationPercent: c.EffectiveFidelity().TerminationPercent,
	})
}

// newImages makes the image service of a configuration.
func newImages(c contract.Configuration, stateDir string) *fakecri.Images {
	pull := c.EffectiveFidelity().ImagePull
	return fakecri.NewImages(fakecri.ImageOptions{
		Mountpoint:     stateDir,
		BytesPerSecond: pull.BytesPerSecond,
		FailurePercent: pull.FailurePercent,
		Seed:           pull.Seed,
		Node:           c.NodeName,
	})
}

// podIndex looks up pods in the kubelet, which is built after the runtime that needs them.
type podIndex struct {
	lookup atomic.Pointer[func(namespace, name string) (*corev1.Pod, bool)]
}

func (p *podIndex) useLookup(lookup func(namespace, name string) (*corev1.Pod, bool)) {
	p.lookup.Store(&lookup)
}

// roleOf finds out what a container is for.
func (p *podIndex) roleOf(namespace, pod, container string) fakecri.Role {
	found, ok := p.findPod(namespace, pod)
	if !ok {
		return fakecri.MainContainer
	}
	if isSidecar(found, container) {
		return fakecri.Sidecar
	}
	for i := range found.Spec.InitContainers {
		if found.Spec.InitContainers[i].Name == container {
			return fakecri.InitContainer
		}
	}
	return fakecri.MainContainer
}

// findPod asks the kubelet for a pod.
func (p *podIndex) findPod(namespace, name string) (*corev1.Pod, bool) {
	lookup := p.lookup.Load()
	if lookup == nil {
		return nil, false
	}
	return (*lookup)(namespace, name)
}

// requestsOf finds out what a container requests.
func (p *podIndex) requestsOf(namespace, pod, container string) fakecri.Requests {
	found, ok := p.findPod(namespace, pod)
	if !ok {
		return fakecri.Requests{}
	}
	for _, containers := range [][]corev1.Container{found.Spec.Containers, found.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == container {
				requests := containers[i].Resources.Requests
				return fakecri.Requests{
					CPU: requests.Cpu().AsApproximateFloat64(), Memory: requests.Memory().AsApproximateFloat64(),
					Storage: requests.StorageEphemeral().AsApproximateFloat64()}
			}
		}
	}
	return fakecri.Requests{}
}
