package hollow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	minPods, maxPods = 1, 1000
	maxOSImage       = 128
	// maxStartupDelay refuses a typing error that would delay a node for days.
	maxStartupDelay = 24 * time.Hour
)

var basicResources = []string{"cpu", "memory", "ephemeral-storage"}

// decodeConfig reads a HollowNodeConfig strictly. Its errors are *driver.InvalidConfigurationError and name the
// field below path. No raw configuration means all defaults.
func decodeConfig(raw *runtime.RawExtension, path string) (v1alpha1.HollowNodeConfig, error) {
	var config v1alpha1.HollowNodeConfig
	if raw == nil || len(bytes.TrimSpace(raw.Raw)) == 0 {
		return config, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw.Raw, &fields); err != nil || fields == nil {
		return config, driver.Invalid(path, "not a JSON object: write a %s", v1alpha1.HollowNodeConfigKind)
	}
	read := map[string]setter{
		"apiVersion":         requireString(&config.APIVersion, v1alpha1.GroupVersion.String()),
		"kind":               requireString(&config.Kind, v1alpha1.HollowNodeConfigKind),
		"capacity":           readResources(&config.Capacity, capacityName),
		"devices":            readDevices(&config.Devices),
		"csiDrivers":         readCSIDrivers(&config.CSIDrivers),
		"maxPods":            readNumber(&config.MaxPods, minPods, maxPods),
		"osImage":            osImage(&config.OSImage),
		"startupDelay":       readDuration(&config.StartupDelay, 0, maxStartupDelay),
		"hollowTaint":        oneOf(&config.HollowTaint, v1alpha1.HollowTaintAuto, v1alpha1.HollowTaintAlways, v1alpha1.HollowTaintNever),
		"podResources":       readResources(&config.PodResources, podResourceName),
		"profile":            oneOf(&config.Profile, v1alpha1.HollowNodeProfileFast, v1alpha1.HollowNodeProfileRealistic),
		"probes":             oneOf(&config.Probes, v1alpha1.HollowProbesSkip, v1alpha1.HollowProbesRun),
		"terminationPercent": readNumber(&config.TerminationPercent, 0, maxPercent),
		"registration":       oneOf(&config.Registration, v1alpha1.HollowRegistrationRepeat, v1alpha1.HollowRegistrationOnce),
		"imagePull":          imagePull(&config.ImagePull),
		"kubelet":            readKubelet(&config.Kubelet),
		"staticPods":         readStaticPods(&config.StaticPods),

		"turnUnhealthyAfter":        readToggle(&config.TurnUnhealthyAfter),
		"turnUnhealthyPeriodically": readToggle(&config.TurnUnhealthyPeriodically),
		"healthyDuration":           readDuration(&config.HealthyDuration, 0, hollownode.MaxUnhealthy),
		"unhealthyDuration":         readDuration(&config.UnhealthyDuration, time.Second, hollownode.MaxUnhealthy),
	}
	for _, required := range []string{"apiVersion", "kind"} {
		if _, ok := fields[required]; !ok {
			return config, driver.Invalid(path+"."+required, "missing: write apiVersion: %s and kind: %s", v1alpha1.GroupVersion, v1alpha1.HollowNodeConfigKind)
		}
	}
	return config, setFields(fields, read, path, v1alpha1.HollowNodeConfigKind)
}

type setter = func(value json.RawMessage, path string) error

// setFields hands each field to its setter. A field that owner, which has them, does not know is an error.
func setFields(fields map[string]json.RawMessage, read map[string]setter, path, owner string) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := path + "." + name
		set, known := read[name]
		if !known {
			return driver.Invalid(field, "unknown field: %s has %s", owner, strings.Join(slices.Sorted(maps.Keys(read)), ", "))
		}
		if err := set(fields[name], field); err != nil {
			return err
		}
	}
	return nil
}

func requireString(target *string, want string) setter {
	return func(value json.RawMessage, path string) error {
		if err := json.Unmarshal(value, target); err != nil || *target != want {
			return driver.Invalid(path, "want %q, got %s", want, formatValue(value))
		}
		return nil
	}
}

func readNumber(target **int32, low, high int32) setter {
	return func(value json.RawMessage, path string) error {
		var number *int32
		if err := json.Unmarshal(value, &number); err != nil || number == nil || *number < low || *number > high {
			return driver.Invalid(path, "want a whole number from %d to %d, got %s", low, high, formatValue(value))
		}
		*target = number
		return nil
	}
}

func osImage(target *string) setter {
	return func(value json.RawMessage, path string) error {
		if err := json.Unmarshal(value, target); err != nil || len(*target) > maxOSImage {
			return driver.Invalid(path, "want a text of at most %d bytes, got %s", maxOSImage, formatValue(value))
		}
		return nil
	}
}

func readDuration(target **metav1.Duration, low, high time.Duration) setter {
	return func(value json.RawMessage, path string) error {
		duration := &metav1.Duration{}
		if err := json.Unmarshal(value, duration); err != nil || duration.Duration < low || duration.Duration > high {
			return driver.Invalid(path, `want a duration such as "30s", from %.0fs to %s, got %s`, low.Seconds(), wholeDuration(high), formatValue(value))
		}
		*target = duration
		return nil
	}
}

// wholeDuration writes 5m0s as 5m, and 24h0m0s as 24h.
func wholeDuration(d time.Duration) string {
	text := d.String()
	for _, whole := range []string{"m0s", "h0m"} {
		if short, isWhole := strings.CutSuffix(text, whole); isWhole {
			text = short + whole[:1]
		}
	}
	return text
}

// readResources reads a list of quantities whose names pass check.
func readResources(target *corev1.ResourceList, check func(name string) string) setter {
	return func(value json.RawMessage, path string) error {
		var quantities map[string]json.RawMessage
		if err := json.Unmarshal(value, &quantities); err != nil {
			return driver.Invalid(path, `want quantities by name such as {"cpu": "4"}, got %s`, formatValue(value))
		}
		list := corev1.ResourceList{}
		for _, name := range slices.Sorted(maps.Keys(quantities)) {
			field := path + "." + name
			if problem := check(name); problem != "" {
				return driver.Invalid(field, "%s", problem)
			}
			quantity, err := v1alpha1.DecodeQuantity(quantities[name])
			if err != nil {
				return driver.Invalid(field, `not a quantity: write it as "4" or "16Gi", got %s`, formatValue(quantities[name]))
			}
			if problem := quantityProblem(corev1.ResourceName(name), quantity); problem != "" {
				return driver.Invalid(field, "%s", problem)
			}
			list[corev1.ResourceName(name)] = quantity
		}
		*target = list
		return nil
	}
}

func quantityProblem(name corev1.ResourceName, quantity resource.Quantity) string {
	switch {
	case quantity.Sign() < 0:
		return fmt.Sprintf("negative: want 0 or more, got %q", quantity.String())
	case isExtended(string(name)) && quantity.MilliValue()%1000 != 0:
		return fmt.Sprintf("an extended resource is counted in whole numbers, got %q", quantity.String())
	}
	return ""
}

// capacityName tells what is wrong with the name of a Node's resource; empty if nothing is.
func capacityName(name string) string {
	switch {
	case name == string(corev1.ResourcePods):
		return "not allowed here: set the number of pods with maxPods"
	case slices.Contains(basicResources, name), isExtended(name):
		return ""
	}
	return "unknown resource: want cpu, memory, ephemeral-storage or an extended resource such as example.com/gpu"
}

// podResourceName is capacityName for the requests of the hollow-node pod.
func podResourceName(name string) string {
	if slices.Contains(basicResources, name) {
		return ""
	}
	return "unknown resource: a hollow-node pod can ask for " + strings.Join(basicResources, ", ")
}

func isExtended(name string) bool {
	domain, _, qualified := strings.Cut(name, "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) && len(validation.IsQualifiedName(name)) == 0
}

// formatValue is a value as it stands in a message.
func formatValue(value json.RawMessage) string {
	const limit = 64
	if len(value) > limit {
		return string(value[:limit]) + "…"
	}
	return string(value)
}
