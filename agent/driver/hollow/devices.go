package hollow

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// maxDeviceKinds bounds the kinds of devices of a Node.
const maxDeviceKinds = 8

// readDevices reads a list of devices.
func readDevices(target *[]v1alpha1.HollowDevices) setter {
	return func(value json.RawMessage, path string) error {
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil || len(list) > maxDeviceKinds {
			return driver.Invalid(path, `want a list of at most %d such as {"resource": "example.com/gpu", "count": 8}, got %s`, maxDeviceKinds, formatValue(value))
		}
		*target = nil
		for i, item := range list {
			kind, err := readDeviceKind(item, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return err
			}
			*target = append(*target, kind)
		}
		return nil
	}
}

func readDeviceKind(value json.RawMessage, path string) (v1alpha1.HollowDevices, error) {
	var kind v1alpha1.HollowDevices
	var count *int32
	err := readObject(value, path, "devices", map[string]setter{
		"resource": extendedResource(&kind.Resource), "driver": readDriver(&kind.Driver), "count": readNumber(&count, 1, hollownode.MaxDevices),
		"attributes": readAttributes(&kind.Attributes), "capacity": readDeviceCapacity(&kind.Capacity),
	})
	switch {
	case err != nil:
		return kind, err
	case kind.Resource == "" && kind.Driver == "":
		return kind, driver.Invalid(path+".resource", "missing: write an extended resource such as example.com/gpu, or in driver a DRA driver such as gpu.example.com")
	case kind.Resource != "" && kind.Driver != "":
		return kind, driver.Invalid(path+".driver", "set beside resource: write two entries, one for the device plugin and one for the DRA driver")
	case count == nil:
		return kind, driver.Invalid(path+".count", "missing: write how many devices there are, 1 to %d", hollownode.MaxDevices)
	case kind.Resource != "" && kind.Attributes != nil:
		return kind, driver.Invalid(path+".attributes", "devices of a device plugin have none: remove it, or write driver instead of resource")
	case kind.Resource != "" && kind.Capacity != nil:
		return kind, driver.Invalid(path+".capacity", "devices of a device plugin have none: remove it, or write driver instead of resource")
	case len(kind.Attributes)+len(kind.Capacity) > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice:
		return kind, driver.Invalid(path+".attributes", "%d, with %d of capacity: want at most %d together", len(kind.Attributes), len(kind.Capacity),
			resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	}
	kind.Count = *count
	return kind, nil
}

func extendedResource(target *string) setter {
	return func(value json.RawMessage, path string) error {
		if err := json.Unmarshal(value, target); err != nil || !isExtended(*target) {
			return driver.Invalid(path, "want an extended resource such as example.com/gpu, got %s", formatValue(value))
		}
		return nil
	}
}

// devicesOf are the devices of config. Their resources are taken out of capacity: the kubelet counts them. One that the class counts as well
// must have the same number there.
func devicesOf(config v1alpha1.HollowNodeConfig, class *driver.Class, capacity corev1.ResourceList) ([]hollownode.Devices, error) {
	var devices []hollownode.Devices
	seen := map[string]bool{}
	for i, kind := range config.Devices {
		field, name := fmt.Sprintf("%s.devices[%d]", class.Path, i), corev1.ResourceName(kind.Resource)
		if kind.Driver != "" {
			if seen[kind.Driver] {
				return nil, driver.Invalid(field+".driver", "%s is there twice: remove one, or give it another name", kind.Driver)
			}
			seen[kind.Driver] = true
			devices = append(devices, driverDevices(kind))
			continue
		}
		if seen[kind.Resource] {
			return nil, driver.Invalid(field+".resource", "%s is there twice: remove one, and count all its devices in the other", kind.Resource)
		}
		if _, counted := config.Capacity[name]; counted {
			return nil, driver.Invalid(class.Path+".capacity."+kind.Resource, "counted twice, here and in devices: remove it here")
		}
		if told, has := capacity[name]; has && told.Value() != int64(kind.Count) {
			return nil, driver.Invalid(field+".count", "%d devices, but spec.nodeTemplate.capacity has %s of %s, the Node that is planned with: "+
				"set the same number in both", kind.Count, told.String(), kind.Resource)
		}
		seen[kind.Resource] = true
		delete(capacity, name)
		devices = append(devices, hollownode.Devices{Resource: kind.Resource, Count: kind.Count})
	}
	return devices, nil
}
