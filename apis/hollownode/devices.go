package hollownode

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// MaxDevices bounds the devices of one kind.
const MaxDevices = 128

// DeviceTaint is the key of the taint that a failed device has in its ResourceSlice.
const DeviceTaint = "hollowfleet.io/device-failed"

// Devices are devices of one kind.
type Devices struct {
	// Resource is the extended resource as which a device plugin offers them. Either it or Driver is required, and no other Devices of a
	// node have the same.
	Resource string `json:"resource,omitempty"`
	// Driver is the DRA driver that publishes them in ResourceSlices.
	Driver string `json:"driver,omitempty"`
	// Count is how many there are, 1 to MaxDevices.
	Count int32 `json:"count"`
	// Attributes and Capacity are those of each of them in its ResourceSlice. None without Driver.
	Attributes map[string]resourcev1.DeviceAttribute `json:"attributes,omitempty"`
	Capacity   map[string]resource.Quantity          `json:"capacity,omitempty"`
}

// PluginDevices are those of device plugins.
func (c Configuration) PluginDevices() []Devices {
	return slices.DeleteFunc(slices.Clone(c.Devices), func(kind Devices) bool { return kind.Resource == "" })
}

// DriverDevices are those of DRA drivers.
func (c Configuration) DriverDevices() []Devices {
	return slices.DeleteFunc(slices.Clone(c.Devices), func(kind Devices) bool { return kind.Driver == "" })
}

// validateDevices reports devices that no node can have.
func (c Configuration) validateDevices() error {
	var problems []error
	seen := map[string]bool{}
	for i, kind := range c.Devices {
		if kind.Count < 1 || kind.Count > MaxDevices {
			problems = append(problems, fmt.Errorf("devices[%d].count: want a number from 1 to %d, got %d", i, MaxDevices, kind.Count))
		}
		if (kind.Resource == "") == (kind.Driver == "") {
			problems = append(problems, fmt.Errorf("devices[%d]: want either resource or driver, got %q and %q", i, kind.Resource, kind.Driver))
		}
		name := cmp.Or(kind.Resource, kind.Driver)
		if _, counted := c.Capacity[corev1.ResourceName(name)]; counted || seen[name] {
			problems = append(problems, fmt.Errorf("devices[%d]: %q is in capacity or twice", i, name))
		}
		if kind.Driver == "" && len(kind.Attributes)+len(kind.Capacity) > 0 {
			problems = append(problems, fmt.Errorf("devices[%d].attributes, capacity: want them with driver only", i))
		}
		seen[name] = true
	}
	return errors.Join(problems...)
}
