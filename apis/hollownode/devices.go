package hollownode

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// MaxDevices bounds the devices of one kind.
const MaxDevices = 128

// Devices are devices of one kind.
type Devices struct {
	// Resource is the extended resource as which a device plugin offers them. Required, and no other Devices of a node have it.
	Resource string `json:"resource"`
	// Count is how many there are, 1 to MaxDevices.
	Count int32 `json:"count"`
}

// validateDevices reports devices that no node can have.
func (c Configuration) validateDevices() error {
	var problems []error
	seen := map[string]bool{}
	for i, kind := range c.Devices {
		if kind.Count < 1 || kind.Count > MaxDevices {
			problems = append(problems, fmt.Errorf("devices[%d].count: want a number from 1 to %d, got %d", i, MaxDevices, kind.Count))
		}
		if _, counted := c.Capacity[corev1.ResourceName(kind.Resource)]; kind.Resource == "" || counted || seen[kind.Resource] {
			problems = append(problems, fmt.Errorf("devices[%d].resource: required, neither in capacity nor twice, got %q", i, kind.Resource))
		}
		seen[kind.Resource] = true
	}
	return errors.Join(problems...)
}
