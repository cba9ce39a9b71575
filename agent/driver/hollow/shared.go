package hollow

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// What the providers have in common that make Nodes on which nothing runs. Their configurations are read alike, and their Nodes keep
// ordinary pods off alike.

// Setter takes the value of one field. Its errors name path.
type Setter = setter

// NodeFields are the fields that the configurations of such providers share, by their names.
type NodeFields struct {
	metav1.TypeMeta
	Capacity     corev1.ResourceList
	MaxPods      *int32
	OSImage      string
	StartupDelay *metav1.Duration
	HollowTaint  v1alpha1.HollowTaint
}

// DecodeNodeFields reads a configuration of that kind strictly: it has these fields and no others. Its errors are
// *driver.InvalidConfigurationError and name the field below path. No raw configuration means all defaults.
func DecodeNodeFields(raw *runtime.RawExtension, path, kind string) (NodeFields, error) {
	var config NodeFields
	if raw == nil || len(bytes.TrimSpace(raw.Raw)) == 0 {
		return config, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw.Raw, &fields); err != nil || fields == nil {
		return config, driver.Invalid(path, "not a JSON object: write a %s", kind)
	}
	for _, required := range []string{"apiVersion", "kind"} {
		if _, ok := fields[required]; !ok {
			return config, driver.Invalid(path+"."+required, "missing: write apiVersion: %s and kind: %s", v1alpha1.GroupVersion, kind)
		}
	}
	return config, setFields(fields, map[string]Setter{
		"apiVersion":   requireString(&config.APIVersion, v1alpha1.GroupVersion.String()),
		"kind":         requireString(&config.Kind, kind),
		"capacity":     readResources(&config.Capacity, capacityName),
		"maxPods":      readNumber(&config.MaxPods, minPods, maxPods),
		"osImage":      osImage(&config.OSImage),
		"startupDelay": readDuration(&config.StartupDelay, 0, maxStartupDelay),
		"hollowTaint":  oneOf(&config.HollowTaint, v1alpha1.HollowTaintAuto, v1alpha1.HollowTaintAlways, v1alpha1.HollowTaintNever),
	}, path, kind)
}

// ResolveCapacity merges the fields, the node template and the defaults, in this order of precedence. The pods come apart.
func (f NodeFields) ResolveCapacity(class *driver.Class) (corev1.ResourceList, int32, error) {
	return capacityOf(v1alpha1.HollowNodeConfig{Capacity: f.Capacity, MaxPods: f.MaxPods}, class)
}

// LeasesPerGrace is how many grace periods of a cluster's node controller the Lease of a Node may last.
const LeasesPerGrace = leasesPerGrace

// CheckStartupDelay refuses a delay with which the Machine, and each that replaces it, would fail before its Node is Ready.
func CheckStartupDelay(delay time.Duration, request driver.Request) error {
	return checkDelay(delay, request)
}

// DefaultTaint is the default taint of hollow Nodes.
func DefaultTaint() corev1.Taint { return hollowTaint() }

// WithDefaultTaint adds the default taint, unless the Machine's own taints have one of its key and effect.
func WithDefaultTaint(taints []corev1.Taint) []corev1.Taint { return withHollowTaint(taints) }

// HasRealNodes asks a cluster for a Node that is neither hollow nor a podhost's.
func HasRealNodes(ctx context.Context, target client.Reader) (bool, error) {
	d := &Driver{environment: driver.Environment{Target: driver.Access{Reader: target}}}
	return d.hasRealNodes(ctx)
}
