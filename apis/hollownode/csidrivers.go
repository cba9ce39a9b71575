package hollownode

import (
	"errors"
	"fmt"
)

// MaxVolumesPerNode bounds the volumes of a CSI driver that a Node can have.
const MaxVolumesPerNode = 1000

// MountFails is an attribute of a volume of a simulated CSI driver, and a parameter of its StorageClass: mounting fails with its text.
const MountFails = "hollowfleet.io/mount-fails"

// CSIDriver is a simulated CSI driver of a Node.
type CSIDriver struct {
	// Name is that of the driver, such as csi.example.com. Required, and no other one of the Node has the same.
	Name string `json:"name"`
	// MaxVolumesPerNode is how many volumes of the driver the Node can have, at most MaxVolumesPerNode. 0 means any number.
	MaxVolumesPerNode int32 `json:"maxVolumesPerNode,omitempty"`
	// TopologyKeys are the labels of the Node that say where its volumes can be used. Without any they can be used on each Node.
	TopologyKeys []string `json:"topologyKeys,omitempty"`
}

// validateCSIDrivers reports drivers that no node can have.
func (c Configuration) validateCSIDrivers() error {
	var problems []error
	seen := map[string]bool{}
	for i, driver := range c.CSIDrivers {
		if driver.Name == "" || seen[driver.Name] {
			problems = append(problems, fmt.Errorf("csiDrivers[%d].name: want a name of its own, got %q", i, driver.Name))
		}
		if driver.MaxVolumesPerNode < 0 || driver.MaxVolumesPerNode > MaxVolumesPerNode {
			problems = append(problems, fmt.Errorf("csiDrivers[%d].maxVolumesPerNode: want a number from 0 to %d, got %d", i, MaxVolumesPerNode, driver.MaxVolumesPerNode))
		}
		seen[driver.Name] = true
	}
	return errors.Join(problems...)
}
