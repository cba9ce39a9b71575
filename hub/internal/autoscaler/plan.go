package autoscaler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The annotations after v1alpha1.AutoscalerCapacityPrefix.
const (
	capacityCPU      = "cpu"
	capacityMemory   = "memory"
	capacityDisk     = "ephemeral-disk"
	capacityMaxPods  = "maxPods"
	capacityGPUType  = "gpu-type"
	capacityGPUCount = "gpu-count"
	capacityLabels   = "labels"
	capacityTaints   = "taints"
)

// defaultMaxPods is a kubelet's.
const defaultMaxPods = 110

// Input is all that a decision rests on.
type Input struct {
	Template v1alpha1.MachineTemplateBody
	// Class is what the template refers to; nil if it refers to none, or to one that is not there.
	Class *v1alpha1.MachineClass
	// Kubelet is what the template's KubeletConfiguration says; the zero value without one.
	Kubelet Kubelet
	// Held: cluster-autoscaler is to keep away for the time being.
	Held bool
	// Annotations that the object has.
	Annotations map[string]string
}

// Kubelet is what a KubeletConfiguration leaves to pods.
type Kubelet struct {
	// MaxPods and PodsPerCore are 0 if it does not say.
	MaxPods, PodsPerCore int64
	// Reserved returns what pods cannot have of a capacity; nil for nothing.
	Reserved func(corev1.ResourceList) corev1.ResourceList
}

// Plan is what to do.
type Plan struct {
	// Write: the annotations below are to be written, and what else the hub wrote before is to go.
	Write bool
	// Annotations of the hub, with AutoscalingHashAnnotation if there are any.
	Annotations map[string]string
}

// Decide compares the annotations that an object should have with those that it has. A value that differs while the
// hash is right was set by a user, and stays.
func Decide(in Input) Plan {
	wanted := map[string]string{}
	for name, value := range describeCapacity(in) {
		wanted[v1alpha1.AutoscalerCapacityPrefix+name] = value
	}
	if in.Held {
		wanted[v1alpha1.AutoscalerPausedAnnotation] = "true"
	}
	if len(wanted) > 0 {
		wanted[v1alpha1.AutoscalingHashAnnotation] = hashOf(wanted)
	}
	write := in.Annotations[v1alpha1.AutoscalingHashAnnotation] != wanted[v1alpha1.AutoscalingHashAnnotation]
	for key := range wanted {
		_, found := in.Annotations[key]
		write = write || !found
	}
	return Plan{Write: write, Annotations: wanted}
}

// describeCapacity describes a Node of the template, by the names after the prefix.
func describeCapacity(in Input) map[string]string {
	described := map[string]string{}
	resources, podLimit := resourcesOf(in)
	put := func(name string, resource corev1.ResourceName) {
		if quantity, found := resources[resource]; found && quantity.Sign() > 0 {
			described[name] = quantity.String()
		}
	}
	put(capacityCPU, corev1.ResourceCPU)
	put(capacityMemory, corev1.ResourceMemory)
	put(capacityDisk, corev1.ResourceEphemeralStorage)
	for _, needed := range []string{capacityCPU, capacityMemory} {
		if described[needed] == "" && in.Annotations[v1alpha1.AutoscalerCapacityPrefix+needed] == "" {
			return nil // cluster-autoscaler has no use for the rest.
		}
	}
	if podLimit > 0 {
		described[capacityMaxPods] = strconv.FormatInt(podLimit, 10)
	}
	// cluster-autoscaler knows one kind of GPU per node.
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if quantity := resources[name]; isGPU(name) && quantity.Sign() > 0 {
			described[capacityGPUType], described[capacityGPUCount] = string(name), strconv.FormatInt(quantity.Value(), 10)
			break
		}
	}
	if list := labelsOf(in); list != "" {
		described[capacityLabels] = list
	}
	if list := taintsOf(in.Template.Taints); list != "" {
		described[capacityTaints] = list
	}
	return described
}

// resourcesOf merges what the provider hollow makes of its configuration with the class's node template. Defaults
// are the agent's: what neither says is not known here.
func resourcesOf(in Input) (resources corev1.ResourceList, podLimit int64) {
	resources = corev1.ResourceList{}
	if in.Class != nil && in.Class.Spec.NodeTemplate != nil {
		maps.Copy(resources, in.Class.Spec.NodeTemplate.Capacity)
	}
	if quantity, found := resources[corev1.ResourcePods]; found {
		podLimit = quantity.Value()
	}
	config := hollowConfig(in)
	maps.Copy(resources, config.Capacity)
	for _, kind := range config.Devices {
		if kind.Resource == "" {
			continue // Devices of a DRA driver are no resources of the Node.
		}
		resources[corev1.ResourceName(kind.Resource)] = *resource.NewQuantity(int64(kind.Count), resource.DecimalSI)
	}
	if config.MaxPods != nil {
		podLimit = int64(*config.MaxPods)
	}
	return in.Kubelet.leave(resources, podLimit)
}

// leave returns what pods can have of resources, and how many there can be. cluster-autoscaler takes the capacity that it is told for what is
// allocatable.
func (k Kubelet) leave(resources corev1.ResourceList, podLimit int64) (allocatable corev1.ResourceList, pods int64) {
	podLimit = cmp.Or(k.MaxPods, podLimit)
	if cpu := resources[corev1.ResourceCPU]; k.PodsPerCore > 0 && !cpu.IsZero() {
		podLimit = min(cpu.Value()*k.PodsPerCore, cmp.Or(podLimit, defaultMaxPods))
	}
	if k.Reserved == nil {
		return resources, podLimit
	}
	for name, reserved := range k.Reserved(resources) {
		if quantity, found := resources[name]; found {
			quantity.Sub(reserved)
			resources[name] = quantity
		}
	}
	return resources, podLimit
}

// hollowConfig is the configuration of provider hollow, or what one of provider kwok has in common with it. What cannot be read is no matter here: the Machines say so.
func hollowConfig(in Input) v1alpha1.HollowNodeConfig {
	var raw *runtime.RawExtension
	if provider := providerOf(in); provider == v1alpha1.ProviderHollow || provider == v1alpha1.ProviderKwok {
		raw = in.Template.ProviderConfig.Value
		if in.Class != nil {
			raw = in.Class.Spec.ProviderConfig
		}
	}
	var config v1alpha1.HollowNodeConfig
	if raw == nil || json.Unmarshal(raw.Raw, &config) != nil {
		return v1alpha1.HollowNodeConfig{}
	}
	return config
}

// providerOf is the provider of the Machines; empty if their class is unknown.
func providerOf(in Input) string {
	switch {
	case in.Template.ProviderConfig.ValueRef == nil:
		return cmp.Or(in.Template.ProviderConfig.Provider, v1alpha1.ProviderHollow)
	case in.Class == nil:
		return ""
	}
	return in.Class.Spec.Provider
}

func isGPU(name corev1.ResourceName) bool {
	domain, resource, extended := strings.Cut(string(name), "/")
	return extended && domain != "" && strings.Contains(resource, "gpu")
}

// labelsOf lists the labels that a Node gets from its Machine.
func labelsOf(in Input) string {
	all := maps.Clone(in.Template.NodeMetadata.Labels)
	if all == nil {
		all = map[string]string{}
	}
	for _, role := range in.Template.Roles {
		all[v1alpha1.NodeRoleLabelPrefix+role] = ""
	}
	switch providerOf(in) {
	case v1alpha1.ProviderHollow:
		all[v1alpha1.HollowNodeLabel] = "true"
	case v1alpha1.ProviderKwok:
		all[v1alpha1.HollowNodeLabel] = v1alpha1.KwokNodeLabelValue
	}
	var list []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, key+"="+all[key])
	}
	return strings.Join(list, ",")
}

// taintsOf writes taints as key=value:Effect.
func taintsOf(all []corev1.Taint) string {
	var list []string
	for _, taint := range all {
		text := taint.Key
		if taint.Value != "" {
			text += "=" + taint.Value
		}
		list = append(list, text+":"+string(taint.Effect))
	}
	return strings.Join(list, ",")
}

func hashOf(annotations map[string]string) string {
	sum := fnv.New64a()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(sum, "%s=%q\n", key, annotations[key])
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}
