package hollow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const defaultMaxPods = 110

// desired is what a Machine's pod and Secret have to say.
type desired struct {
	// configuration of the hollow-node, as the file that it reads.
	configuration hollownode.Configuration
	// podResources are the requests of the pod.
	podResources corev1.ResourceList
	// hollowTaint is what the class says of the default taint; empty if it says nothing.
	hollowTaint v1alpha1.HollowTaint
	// kubelet is the KubeletConfiguration; nil without one.
	kubelet *kubeletConfiguration
	// staticPods are those of the configuration.
	staticPods []corev1.Pod
	// configurationHash changes with everything that takes another pod; registrationHash with what matters
	// only until the Node has joined.
	configurationHash, registrationHash string
}

// ProviderID returns the provider ID of a Machine of a cluster.
func ProviderID(cluster, machine string) string { return "hollowfleet://" + cluster + "/" + machine }

// resolveDesired computes desired for this cluster. Nodes whose heartbeats it would miss are refused.
func (d *Driver) resolveDesired(request driver.Request) (desired, error) {
	want, err := resolveDesired(d.environment.ClusterName, request)
	if err != nil {
		return desired{}, err
	}
	if err := checkNamespaces(want.staticPods, d.options.StaticPodNamespaces, request.Class.Path); err != nil {
		return desired{}, err
	}
	field := request.Class.Path + ".kubelet"
	if want.kubelet != nil && want.kubelet.NodeLeaseDurationSeconds != 0 {
		field = want.kubelet.path
	}
	return want, checkHeartbeat(want.configuration.EffectiveFidelity().Kubelet, cmp.Or(d.options.NodeMonitorGracePeriod, DefaultGracePeriod), field)
}

// leasesPerGrace is how many grace periods a Lease may last. The kubelet renews it after a quarter of its duration, and a bit later if it
// is busy: three quarters of the grace period are left for the way.
const leasesPerGrace = 3

// checkHeartbeat refuses heartbeats that are so rare that the node controller marks the Node Unknown in between.
func checkHeartbeat(kubelet hollownode.Kubelet, grace time.Duration, path string) error {
	lease := time.Duration(cmp.Or(kubelet.NodeLeaseDurationSeconds, hollownode.DefaultLeaseSeconds)) * time.Second
	if lease <= leasesPerGrace*grace {
		return nil
	}
	return driver.Invalid(path+".nodeLeaseDurationSeconds", "the Node would renew its Lease only every %s, too rarely for a grace period of %s: use at most %d; "+
		"or raise --node-monitor-grace-period of the cluster's kube-controller-manager, and of its agent", lease/4, grace, leasesPerGrace*int(grace/time.Second))
}

// refuseUnsupported refuses fields of a Machine and its class that mean nothing to hollow nodes.
func refuseUnsupported(request driver.Request) error {
	if request.Machine.Spec.Versions.ControlPlane != "" {
		return driver.Invalid("spec.versions.controlPlane", "provider hollow does not support control planes: remove the field")
	}
	if request.Class.SecretName != "" {
		return driver.Invalid("spec.secretRef", "provider hollow does not use credentials: remove the field from the MachineClass")
	}
	return nil
}

// resolveDesired computes desired, or says with *driver.InvalidConfigurationError why it cannot.
func resolveDesired(cluster string, request driver.Request) (desired, error) {
	machine, class := request.Machine, request.Class
	if err := refuseUnsupported(request); err != nil {
		return desired{}, err
	}
	config, err := decodeConfig(class.Config, class.Path)
	if err != nil {
		return desired{}, err
	}
	kubelet, err := decodeKubeletConfiguration(machine)
	if err != nil {
		return desired{}, err
	}
	fidelityPath := class.Path
	if kubelet != nil {
		kubelet.putInto(&config)
		fidelityPath = fmt.Sprintf("%s, with %s", kubelet.path, class.Path)
	}
	capacity, podLimit, err := capacityOf(config, class)
	if err != nil {
		return desired{}, err
	}
	devices, err := devicesOf(config, class, capacity)
	if err != nil {
		return desired{}, err
	}
	d := desired{
		configuration: hollownode.Configuration{
			Devices:    devices,
			NodeName:   machine.Name,
			ProviderID: ProviderID(cluster, machine.Name),
			Capacity:   capacity,
			MaxPods:    podLimit,
			OSImage:    config.OSImage,
		},
		podResources: podResourcesOf(config),
		hollowTaint:  config.HollowTaint,
		kubelet:      kubelet,
	}
	if kubelet != nil {
		if d.configuration.KubeletConfiguration, err = kubelet.forNode(capacity); err != nil {
			return desired{}, err
		}
	}
	if d.configuration.Fidelity, err = fidelityOf(config, fidelityPath); err != nil {
		return desired{}, err
	}
	if d.staticPods, d.configuration.StaticPods, err = staticPodsOf(config, machine.Name, class.Path); err != nil {
		return desired{}, err
	}
	if err := setBehavior(&d.configuration, config, request); err != nil {
		return desired{}, err
	}
	if err := setVersions(&d.configuration, machine.Spec.Versions); err != nil {
		return desired{}, err
	}
	d.configuration.RequireVersionCode = machine.Spec.RequireVersionCode
	return d.withRegistration(machine)
}

// setBehavior takes over when the Node starts and fails, and its CSI drivers.
func setBehavior(c *hollownode.Configuration, config v1alpha1.HollowNodeConfig, request driver.Request) error {
	var err error
	if c.Unhealthy, err = unhealthyOf(config, request.Class.Path); err != nil {
		return err
	}
	if c.CSIDrivers, err = csiDriversOf(config, request.Class.Path, request.Machine.Spec.NodeMetadata.Labels); err != nil {
		return err
	}
	c.StartupDelay, err = startupDelayOf(config, request)
	return err
}

// startupDelayOf is what a class says of the delay, or 0.
func startupDelayOf(config v1alpha1.HollowNodeConfig, request driver.Request) (metav1.Duration, error) {
	if config.StartupDelay == nil {
		return metav1.Duration{}, nil
	}
	return *config.StartupDelay, checkDelay(config.StartupDelay.Duration, request)
}

// checkDelay refuses a delay with which the Machine, and each that replaces it, would fail before its Node is Ready.
// One that has joined is past its creation: whatever was changed since, it gets its pod back.
func checkDelay(delay time.Duration, request driver.Request) error {
	timeout := request.CreationTimeout
	if timeout == 0 || delay < timeout || hasJoined(request.Machine) {
		return nil
	}
	return driver.Invalid(request.Class.Path+".startupDelay",
		"%s is not less than the %s in which the Node must be Ready: raise spec.timeouts.creation or shorten the delay", delay, timeout)
}

// setVersions takes the versions over that a hollow-node can report. With any other it would not start.
func setVersions(configuration *hollownode.Configuration, versions v1alpha1.MachineVersions) error {
	if versions.Kubelet != "" {
		configuration.KubeletVersion = "v" + strings.TrimPrefix(versions.Kubelet, "v")
		if err := hollownode.CheckKubeletVersion(configuration.KubeletVersion); err != nil {
			return driver.Invalid("spec.versions.kubelet", "not a semantic version: write it as v1.36.2, got %q (%s)", versions.Kubelet, err)
		}
	}
	if engine := versions.ContainerRuntime; engine != nil {
		configuration.ContainerRuntimeName, configuration.ContainerRuntimeVersion = engine.Name, engine.Version
		if err := hollownode.CheckContainerRuntimeVersion(engine.Version); err != nil {
			return driver.Invalid("spec.versions.containerRuntime.version", "not a version: write it as 2.1.4, got %q (%s)", engine.Version, err)
		}
	}
	return nil
}

// withRegistration adds what the Node registers with, and the hashes.
func (d desired) withRegistration(machine *v1alpha1.Machine) (desired, error) {
	var err error
	if d.configurationHash, err = hashOf(d.configuration, d.podResources); err != nil {
		return desired{}, err
	}
	for key, value := range machine.Spec.NodeMetadata.Labels {
		if kubeletMaySet(key) {
			if d.configuration.Labels == nil {
				d.configuration.Labels = map[string]string{}
			}
			d.configuration.Labels[key] = value
		}
	}
	d.configuration.Taints = machine.Spec.Taints
	if d.kubelet != nil {
		d.configuration.Taints = d.kubelet.registrationTaints(machine.Spec.Taints)
	}
	registration := []any{d.configuration.Labels, d.configuration.Taints}
	if d.hollowTaint != "" { // Pods of agents that did not know the field keep their hash.
		registration = append(registration, d.hollowTaint)
	}
	d.registrationHash, err = hashOf(registration...)
	return d, err
}

// capacityOf merges configuration, node template and defaults, in this order of precedence.
func capacityOf(config v1alpha1.HollowNodeConfig, class *driver.Class) (corev1.ResourceList, int32, error) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("4"),
		corev1.ResourceMemory:           resource.MustParse("16Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	podLimit := int32(defaultMaxPods)
	if class.NodeTemplate != nil {
		for name, quantity := range class.NodeTemplate.Capacity {
			field := "spec.nodeTemplate.capacity." + string(name)
			if name == corev1.ResourcePods {
				if number := quantity.Value(); number < minPods || number > maxPods {
					return nil, 0, driver.Invalid(field, "want a whole number from %d to %d, got %q", minPods, maxPods, quantity.String())
				}
				podLimit = int32(quantity.Value())
				continue
			}
			problem := capacityName(string(name))
			if problem == "" {
				problem = quantityProblem(name, quantity)
			}
			if problem != "" {
				return nil, 0, driver.Invalid(field, "%s", problem)
			}
			capacity[name] = quantity
		}
	}
	for name, quantity := range config.Capacity {
		capacity[name] = quantity
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity := capacity[name]; quantity.Sign() <= 0 {
			return nil, 0, driver.Invalid(class.Path+".capacity."+string(name), "want more than 0")
		}
	}
	if config.MaxPods != nil {
		podLimit = *config.MaxPods
	}
	return capacity, podLimit, nil
}

func podResourcesOf(config v1alpha1.HollowNodeConfig) corev1.ResourceList {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("20m"),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	for name, quantity := range config.PodResources {
		requests[name] = quantity
	}
	return requests
}

// hashOf is short enough for an annotation that people read, and long enough that no two configurations share it.
func hashOf(parts ...any) (string, error) {
	data, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("encoding a configuration to hash it: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}
