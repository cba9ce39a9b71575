// Package hollownode is the contract between the agent's hollow driver and the hollow-node process:
// the configuration file that the one writes and the other reads.
package hollownode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIVersion and Kind identify the file format; a hollow-node refuses any other.
	APIVersion = "hollownode.hollowfleet.io/v1alpha1"
	Kind       = "HollowNodeConfiguration"

	// ConfigFileName and BootstrapKubeconfigFileName are the keys of the per-machine Secret and so the
	// names of the files in the directory that the hollow-node is given with --config-dir.
	ConfigFileName              = "config.json"
	BootstrapKubeconfigFileName = "bootstrap-kubeconfig"

	// HealthPort is where a hollow-node serves /healthz and /readyz on its pod IP.
	HealthPort = 10248
	// KubeletPort is where it serves the kubelet's API there, if its configuration wants that.
	KubeletPort = 10250
)

// KubeletLate is the condition of a Node whose hollow kubelet does not keep up, because the machine that simulates the Node is too slow:
// True as long as pods that are due wait for more than five seconds in the kubelet's work queue, or its process has waited for a processor
// all the time for forty seconds. The hollow-node writes it; a Node whose kubelet has never been late does not have it. Load tests on
// many such Nodes are invalid.
const KubeletLate corev1.NodeConditionType = "KubeletLate"

// The reasons of KubeletLate while it is True.
const (
	// WorkQueueLate: pods that are due wait.
	WorkQueueLate = "WorkQueueLate"
	// ProcessorWait: the process waits for a processor all the time.
	ProcessorWait = "ProcessorWait"
)

// Configuration is what one hollow-node process needs to become one Node. The agent writes it; no user
// edits it in place: a changed configuration means a new pod.
type Configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// NodeName is the name of the Node that the hollow kubelet registers, and the name in its
	// system:node identity. Required.
	NodeName string `json:"nodeName"`
	// ProviderID becomes Node.spec.providerID. Required.
	ProviderID string `json:"providerID"`
	// KubeletVersion is the version that the Node reports, such as "v1.36.2". Empty means the version of
	// the kubelet code that is built in.
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	// RequireVersionCode lets a hollow-node refuse to start whose kubelet code is of another minor than KubeletVersion.
	RequireVersionCode bool `json:"requireVersionCode,omitempty"`
	// ContainerRuntimeName and ContainerRuntimeVersion make up what the Node reports as its runtime,
	// "<name>://<version>". Empty means "hollow" and the built-in version.
	ContainerRuntimeName    string `json:"containerRuntimeName,omitempty"`
	ContainerRuntimeVersion string `json:"containerRuntimeVersion,omitempty"`
	// Labels and Taints are put on the Node when it registers, so that the scheduler never sees it
	// without them. Labels that NodeRestriction forbids a kubelet are left out here by the agent, which
	// sets them itself.
	Labels map[string]string `json:"labels,omitempty"`
	Taints []corev1.Taint    `json:"taints,omitempty"`
	// Capacity is the Node's capacity: cpu, memory, ephemeral-storage and any extended resource. cpu and
	// memory are required. Pods are counted by MaxPods.
	Capacity corev1.ResourceList `json:"capacity"`
	// MaxPods is the number of pods that the Node takes. Required, at least 1.
	MaxPods int32 `json:"maxPods"`
	// OSImage is the operating system that the Node reports. Empty means "Hollow Linux".
	OSImage string `json:"osImage,omitempty"`
	// StartupDelay is how long the hollow-node waits before it asks for its identity, as a real machine
	// takes time to boot.
	StartupDelay metav1.Duration `json:"startupDelay,omitzero"`
	// Fidelity is how near pods and kubelet come to those of a real node. Nil means Fast. The agent leaves it out when it
	// is that, so that no running node is replaced for it.
	Fidelity *Fidelity `json:"fidelity,omitempty"`
	// KubeletConfiguration is what the Machine's KubeletConfiguration says. Nil without one.
	KubeletConfiguration *KubeletConfiguration `json:"kubeletConfiguration,omitempty"`
	// StaticPods are the manifests of the kubelet's static pods, each a Pod.
	StaticPods []json.RawMessage `json:"staticPods,omitempty"`
	// Devices are those that the Node gets from device plugins and DRA drivers. Capacity has none of their resources.
	Devices []Devices `json:"devices,omitempty"`
	// CSIDrivers are the simulated CSI drivers that register with the Node's kubelet.
	CSIDrivers []CSIDriver `json:"csiDrivers,omitempty"`
	// Unhealthy lets the Node be not Ready from time to time, or for good. Nil means that it does not.
	Unhealthy *Unhealthy `json:"unhealthy,omitempty"`
}

// Unhealthy is when a Node is not Ready because its own configuration says so. It starts over with each pod, and nothing but
// another configuration ends it.
type Unhealthy struct {
	// HealthyFor is how long the Node is well, from the first start of its kubelet and after each time that it was not.
	HealthyFor metav1.Duration `json:"healthyFor"`
	// UnhealthyFor is how long it is not Ready then. 0 means for good.
	UnhealthyFor metav1.Duration `json:"unhealthyFor,omitzero"`
}

// MaxUnhealthy bounds the times of Unhealthy.
const MaxUnhealthy = 30 * 24 * time.Hour

// Validate reports every time that no node can have.
func (u Unhealthy) Validate() error {
	var problems []error
	if d := u.HealthyFor.Duration; d < 0 || d > MaxUnhealthy {
		problems = append(problems, fmt.Errorf("healthyFor: want a duration from 0s to %s, got %s", MaxUnhealthy, d))
	}
	if d := u.UnhealthyFor.Duration; d != 0 && (d < time.Second || d > MaxUnhealthy) {
		problems = append(problems, fmt.Errorf("unhealthyFor: want 0s or a duration from 1s to %s, got %s", MaxUnhealthy, d))
	}
	return errors.Join(problems...)
}

// Marshal renders c as the file's content, with its APIVersion and Kind set.
func Marshal(c Configuration) ([]byte, error) {
	c.APIVersion, c.Kind = APIVersion, Kind
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(c)
}

// Parse reads a configuration file. Unknown fields, another version and missing fields are errors.
func Parse(data []byte) (Configuration, error) {
	var c Configuration
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return Configuration{}, fmt.Errorf("parsing the hollow-node configuration: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Configuration{}, errors.New("parsing the hollow-node configuration: text after the end of the object")
	}
	return c, c.Validate()
}

// Validate reports every field that keeps c from describing a Node.
func (c Configuration) Validate() error {
	var problems []error
	if c.APIVersion != APIVersion || c.Kind != Kind {
		problems = append(problems, fmt.Errorf("apiVersion, kind: want %s, %s, got %q, %q", APIVersion, Kind, c.APIVersion, c.Kind))
	}
	if c.NodeName == "" {
		problems = append(problems, errors.New("nodeName: required"))
	}
	if c.ProviderID == "" {
		problems = append(problems, errors.New("providerID: required"))
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := c.Capacity[name]; !ok || quantity.Sign() <= 0 {
			problems = append(problems, fmt.Errorf("capacity.%s: required, more than 0", name))
		}
	}
	if c.MaxPods < 1 {
		problems = append(problems, fmt.Errorf("maxPods: want at least 1, got %d", c.MaxPods))
	}
	if c.StartupDelay.Duration < 0 {
		problems = append(problems, fmt.Errorf("startupDelay: want 0 or more, got %s", c.StartupDelay.Duration))
	}
	if c.Fidelity != nil {
		if err := c.Fidelity.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("fidelity: %w", err))
		}
	}
	problems = append(problems, c.validateDevices(), c.validateCSIDrivers())
	if c.Unhealthy != nil {
		if err := c.Unhealthy.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("unhealthy: %w", err))
		}
	}
	return errors.Join(problems...)
}
