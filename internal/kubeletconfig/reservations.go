// Package kubeletconfig has what hub and agent both make of a KubeletConfiguration.
package kubeletconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// FieldError is what is wrong with a field of a KubeletConfiguration.
type FieldError struct{ Field, Problem string }

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

func refuse(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// evictionSignals are the signals of evictionHard, and the resource that each keeps from pods; empty for none.
var evictionSignals = map[string]corev1.ResourceName{
	"memory.available": corev1.ResourceMemory, "nodefs.available": corev1.ResourceEphemeralStorage,
	"nodefs.inodesFree": "", "imagefs.available": "", "imagefs.inodesFree": "",
	"containerfs.available": "", "containerfs.inodesFree": "", "pid.available": "",
}

// reservable are the resources of kubeReserved and systemReserved.
var reservable = []string{"cpu", "memory", "ephemeral-storage", "pid"}

// SumReservations is what pods cannot have of a capacity: kubeReserved, systemReserved and the thresholds of evictionHard together. Its errors
// are *FieldError.
func SumReservations(c kubeletv1beta1.KubeletConfiguration, capacity corev1.ResourceList) (corev1.ResourceList, error) {
	sum := corev1.ResourceList{}
	for field, list := range map[string]map[string]string{"kubeReserved": c.KubeReserved, "systemReserved": c.SystemReserved} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			quantity, err := resource.ParseQuantity(list[name])
			if err != nil || quantity.Sign() < 0 || !slices.Contains(reservable, name) {
				return nil, refuse(field+"."+name, "want %s, and 0 or more as in 200m or 1Gi, got %q", strings.Join(reservable, ", "), list[name])
			}
			addTo(sum, corev1.ResourceName(name), quantity)
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionHard)) {
		name, threshold, err := ReadThreshold("evictionHard", signal, c.EvictionHard[signal], capacity)
		if err != nil {
			return nil, err
		}
		if name != "" {
			addTo(sum, name, threshold)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		if has, counted := capacity[name]; counted && has.Cmp(sum[name]) < 0 {
			all := sum[name]
			return nil, refuse("kubeReserved", "with systemReserved and evictionHard, %s of %s is reserved, and the node has %s: reserve less", all.String(), name, has.String())
		}
	}
	return sum, nil
}

func addTo(sum corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	all := sum[name]
	all.Add(quantity)
	sum[name] = all
}

// ReadThreshold reads what a field says of an eviction signal, and returns the resource that the signal is of; empty for none.
func ReadThreshold(field, signal, text string, capacity corev1.ResourceList) (corev1.ResourceName, resource.Quantity, error) {
	name, known := evictionSignals[signal]
	if !known {
		return "", resource.Quantity{}, refuse(field+"."+signal, "no eviction signal: want %s", strings.Join(slices.Sorted(maps.Keys(evictionSignals)), ", "))
	}
	threshold, err := parseThreshold(text, capacity[name])
	if err != nil {
		return "", resource.Quantity{}, refuse(field+"."+signal, "%v", err)
	}
	return name, threshold, nil
}

// parseThreshold reads a quantity, or a percentage of the capacity.
func parseThreshold(text string, capacity resource.Quantity) (resource.Quantity, error) {
	if percent, is := strings.CutSuffix(text, "%"); is {
		part, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(part >= 0 && part <= 100) {
			return resource.Quantity{}, fmt.Errorf("want a percentage from 0%% to 100%%, got %q", text)
		}
		if part == 100 {
			part = 0 // A kubelet ignores it.
		}
		return *resource.NewQuantity(int64(float64(capacity.Value())*part/100), resource.BinarySI), nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return resource.Quantity{}, fmt.Errorf("want a quantity such as 100Mi or a percentage such as 10%%, got %q", text)
	}
	return quantity, nil
}
