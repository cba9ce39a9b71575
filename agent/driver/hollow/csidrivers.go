package hollow

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// maxCSIDrivers and maxTopologyKeys bound the drivers of a Node, and the labels of each.
	maxCSIDrivers, maxTopologyKeys = 8, 8
	// maxCSIDriverName is what a CSINode takes.
	maxCSIDriverName = 63
)

// kubeletLabels are labels that a kubelet gives its Node in any case, and which can be topology keys.
var kubeletLabels = []string{corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable}

// readCSIDrivers reads a list of CSI drivers.
func readCSIDrivers(target *[]v1alpha1.HollowCSIDriver) setter {
	return func(value json.RawMessage, path string) error {
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil || len(list) > maxCSIDrivers {
			return driver.Invalid(path, `want a list of at most %d such as {"name": "csi.example.com", "maxVolumesPerNode": 25}, got %s`, maxCSIDrivers, formatValue(value))
		}
		*target = nil
		for i, item := range list {
			read, err := readCSIDriver(item, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return err
			}
			if slices.ContainsFunc(*target, func(other v1alpha1.HollowCSIDriver) bool { return other.Name == read.Name }) {
				return driver.Invalid(fmt.Sprintf("%s[%d].name", path, i), "%s is there twice: remove one, or give it another name", read.Name)
			}
			*target = append(*target, read)
		}
		return nil
	}
}

func readCSIDriver(value json.RawMessage, path string) (v1alpha1.HollowCSIDriver, error) {
	var read v1alpha1.HollowCSIDriver
	err := readObject(value, path, "csiDrivers", map[string]setter{
		"name": readCSIDriverName(&read.Name), "maxVolumesPerNode": readNumber(&read.MaxVolumesPerNode, 1, hollownode.MaxVolumesPerNode),
		"topologyKeys": readTopologyKeys(&read.TopologyKeys),
	})
	if err == nil && read.Name == "" {
		err = driver.Invalid(path+".name", "missing: write the name of a CSI driver such as csi.example.com")
	}
	return read, err
}

func readCSIDriverName(target *string) setter {
	return func(value json.RawMessage, path string) error {
		if err := json.Unmarshal(value, target); err != nil || !IsCSIDriverName(*target) {
			return driver.Invalid(path, "want the name of a CSI driver such as csi.example.com, of at most %d characters, got %s", maxCSIDriverName, formatValue(value))
		}
		return nil
	}
}

// IsCSIDriverName reports whether a CSI driver can have a name.
func IsCSIDriverName(name string) bool {
	return len(name) <= maxCSIDriverName && len(validation.IsDNS1123Subdomain(name)) == 0
}

func readTopologyKeys(target *[]string) setter {
	return func(value json.RawMessage, path string) error {
		if err := json.Unmarshal(value, target); err != nil || len(*target) > maxTopologyKeys {
			return driver.Invalid(path, `want a list of at most %d labels such as "topology.kubernetes.io/zone", got %s`, maxTopologyKeys, formatValue(value))
		}
		for i, key := range *target {
			if len(validation.IsQualifiedName(key)) > 0 || slices.Index(*target, key) != i {
				return driver.Invalid(fmt.Sprintf("%s[%d]", path, i), "want the key of a label such as topology.kubernetes.io/zone, each once, got %q", key)
			}
		}
		return nil
	}
}

// csiDriversOf are the CSI drivers of config for a Node with these labels. A driver whose topology keys the Node does not have could never
// register.
func csiDriversOf(config v1alpha1.HollowNodeConfig, path string, labels map[string]string) ([]hollownode.CSIDriver, error) {
	var drivers []hollownode.CSIDriver
	for i, read := range config.CSIDrivers {
		made := hollownode.CSIDriver{Name: read.Name, TopologyKeys: read.TopologyKeys}
		if read.MaxVolumesPerNode != nil {
			made.MaxVolumesPerNode = *read.MaxVolumesPerNode
		}
		for j, key := range read.TopologyKeys {
			if _, has := labels[key]; !has && !slices.Contains(kubeletLabels, key) {
				return nil, driver.Invalid(fmt.Sprintf("%s.csiDrivers[%d].topologyKeys[%d]", path, i, j),
					"the Node does not have the label %s: add it to spec.nodeMetadata.labels, or write %s for volumes of one Node", key, corev1.LabelHostname)
			}
		}
		drivers = append(drivers, made)
	}
	return drivers, nil
}
