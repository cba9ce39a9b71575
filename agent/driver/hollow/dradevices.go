package hollow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// maxNamePrefix is how long the first label of a driver may be, after which devices are called: gpu-0, gpu-1 and so on.
const maxNamePrefix = validation.DNS1123LabelMaxLength - len("-127")

// readDriver reads the name of a DRA driver.
func readDriver(target *string) setter {
	return func(value json.RawMessage, path string) error {
		err := json.Unmarshal(value, target)
		prefix, _, hasDomain := strings.Cut(*target, ".")
		if err != nil || !hasDomain || len(validation.IsDNS1123Subdomain(*target)) > 0 || len(*target) > resourcev1.DriverNameMaxLength || len(prefix) > maxNamePrefix {
			return driver.Invalid(path, "want a DRA driver such as gpu.example.com, of at most %d characters and a first part of %d, got %s",
				resourcev1.DriverNameMaxLength, maxNamePrefix, formatValue(value))
		}
		return nil
	}
}

// readAttributes reads the attributes of the devices of a driver.
func readAttributes(target *map[string]v1alpha1.HollowDeviceAttribute) setter {
	return func(value json.RawMessage, path string) error {
		var values map[string]json.RawMessage
		if err := json.Unmarshal(value, &values); err != nil {
			return driver.Invalid(path, `want attributes by name such as {"model": {"string": "A100"}}, got %s`, formatValue(value))
		}
		read := map[string]v1alpha1.HollowDeviceAttribute{}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			field := path + "." + name
			if problem := deviceFieldProblem(name); problem != "" {
				return driver.Invalid(field, "%s", problem)
			}
			attribute, err := readAttribute(values[name], field)
			if err != nil {
				return err
			}
			read[name] = attribute
		}
		*target = read
		return nil
	}
}

func readAttribute(value json.RawMessage, path string) (v1alpha1.HollowDeviceAttribute, error) {
	var attribute v1alpha1.HollowDeviceAttribute
	var set map[string]json.RawMessage
	err := readObject(value, path, "an attribute", map[string]setter{
		"string": readAttributeText(&attribute.String, func(string) bool { return true }, "a text"),
		"int":    readSeed(&attribute.Int), "bool": readBoolean(&attribute.Bool),
		"version": readAttributeText(&attribute.Version, isSemantic, "a semantic version such as 1.2.3"),
	})
	if err != nil {
		return attribute, err
	}
	if err := json.Unmarshal(value, &set); err != nil || len(set) != 1 {
		return attribute, driver.Invalid(path, `want one value such as {"string": "A100"}, got %s`, formatValue(value))
	}
	return attribute, nil
}

func readAttributeText(target **string, isValid func(string) bool, want string) setter {
	return func(value json.RawMessage, path string) error {
		var text *string
		if err := json.Unmarshal(value, &text); err != nil || text == nil || len(*text) > resourcev1.DeviceAttributeMaxValueLength || !isValid(*text) {
			return driver.Invalid(path, "want %s of at most %d characters, got %s", want, resourcev1.DeviceAttributeMaxValueLength, formatValue(value))
		}
		*target = text
		return nil
	}
}

func isSemantic(text string) bool {
	_, err := version.ParseSemantic(text)
	return err == nil && !strings.HasPrefix(text, "v")
}

// readDeviceCapacity reads the capacity of each device of a driver.
func readDeviceCapacity(target *map[string]resource.Quantity) setter {
	return func(value json.RawMessage, path string) error {
		var quantities map[string]json.RawMessage
		if err := json.Unmarshal(value, &quantities); err != nil {
			return driver.Invalid(path, `want quantities by name such as {"memory": "80Gi"}, got %s`, formatValue(value))
		}
		read := map[string]resource.Quantity{}
		for _, name := range slices.Sorted(maps.Keys(quantities)) {
			field := path + "." + name
			if problem := deviceFieldProblem(name); problem != "" {
				return driver.Invalid(field, "%s", problem)
			}
			quantity, err := v1alpha1.DecodeQuantity(quantities[name])
			if err != nil || quantity.Sign() < 0 {
				return driver.Invalid(field, `not a quantity: write it as "80Gi", got %s`, formatValue(quantities[name]))
			}
			read[name] = quantity
		}
		*target = read
		return nil
	}
}

// deviceFieldProblem is what keeps a name from being that of an attribute or a capacity of a device; empty if nothing does.
func deviceFieldProblem(name string) string {
	domain, id, qualified := strings.Cut(name, "/")
	if !qualified {
		domain, id = "", name
	}
	if qualified && (len(domain) > resourcev1.DeviceMaxDomainLength || len(validation.IsDNS1123Subdomain(domain)) > 0) ||
		len(id) > resourcev1.DeviceMaxIDLength || len(validation.IsCIdentifier(id)) > 0 {
		return fmt.Sprintf("want a name such as model or example.com/model, of letters, digits and underscores, with at most %d characters after the slash",
			resourcev1.DeviceMaxIDLength)
	}
	return ""
}

// driverDevices are devices of a DRA driver as the hollow node has them.
func driverDevices(kind v1alpha1.HollowDevices) hollownode.Devices {
	devices := hollownode.Devices{Driver: kind.Driver, Count: kind.Count, Capacity: kind.Capacity}
	for name, value := range kind.Attributes {
		if devices.Attributes == nil {
			devices.Attributes = map[string]resourcev1.DeviceAttribute{}
		}
		devices.Attributes[name] = resourcev1.DeviceAttribute{
			StringValue: value.String, IntValue: value.Int, BoolValue: value.Bool, VersionValue: value.Version,
		}
	}
	return devices
}
