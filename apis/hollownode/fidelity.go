package hollownode

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values of Fidelity.Probes.
const (
	ProbesSkip = "Skip"
	ProbesRun  = "Run"
)

// Values of Kubelet.ConfigMapAndSecretChangeDetectionStrategy.
const (
	ChangeDetectionGet   = "Get"
	ChangeDetectionCache = "Cache"
	ChangeDetectionWatch = "Watch"
)

// Bounds of the settings, for what writes and what reads them.
const (
	// MinBytesPerSecond and MaxBytesPerSecond bound ImagePull.BytesPerSecond unless it is 0.
	MinBytesPerSecond = 64 << 10
	MaxBytesPerSecond = 1 << 40
	// MinLeaseSeconds and MaxLeaseSeconds bound Kubelet.NodeLeaseDurationSeconds unless it is 0.
	MinLeaseSeconds = 4
	MaxLeaseSeconds = 3600
	// MinStatusFrequency and MaxStatusFrequency bound Kubelet.NodeStatusUpdateFrequency unless it is 0.
	MinStatusFrequency = time.Second
	MaxStatusFrequency = 5 * time.Minute
	// MaxRate bounds all rates, bursts and numbers of parallel pulls.
	MaxRate = 10000
)

// ProfileAnnotation of the pod of a hollow-node names its profile: Fast, Realistic, or Custom for any other Fidelity. Nothing follows
// from it: load tests tell it.
const ProfileAnnotation = "hollowfleet.io/profile"

// ProfileName names the profile of a Configuration's Fidelity.
func ProfileName(fidelity *Fidelity) string {
	switch {
	case fidelity == nil || *fidelity == Fast():
		return "Fast"
	case *fidelity == Realistic():
		return "Realistic"
	}
	return "Custom"
}

// Fidelity is how near pods and kubelet come to those of a real node. A hollow-node has no defaults for single fields
// of it: they are all what the file says, which follow from the agent's Fast or Realistic.
type Fidelity struct {
	// Probes is ProbesSkip, by which a container that runs is ready, or ProbesRun.
	Probes string `json:"probes"`
	// TerminationPercent is how much of its grace period a container takes to end, 0 to 100. With 100 it is killed.
	TerminationPercent int32 `json:"terminationPercent"`
	// ImagePull is how image pulls go.
	ImagePull ImagePull `json:"imagePull"`
	// RegisterOnce leaves a Node that is deleted alone until the kubelet starts again; otherwise it is registered again.
	RegisterOnce bool `json:"registerOnce,omitempty"`
	// Kubelet has settings of the kubelet, by their names in a KubeletConfiguration.
	Kubelet Kubelet `json:"kubelet"`
}

// ImagePull is how long image pulls take, and how many fail.
type ImagePull struct {
	// BytesPerSecond is how fast the node pulls, all its pulls together; 0 takes no time.
	BytesPerSecond int64 `json:"bytesPerSecond"`
	// FailurePercent is how many of 100 pulls fail; Seed decides which.
	FailurePercent int32 `json:"failurePercent"`
	Seed           int64 `json:"seed"`
}

// Kubelet has settings of the kubelet.
type Kubelet struct {
	// EventRecordQPS and RegistryPullQPS are events and pulls per second; 0 means any number.
	EventRecordQPS  int32 `json:"eventRecordQPS"`
	EventBurst      int32 `json:"eventBurst"`
	RegistryPullQPS int32 `json:"registryPullQPS"`
	RegistryBurst   int32 `json:"registryBurst"`
	// SerializeImagePulls pulls one image after the other.
	SerializeImagePulls bool `json:"serializeImagePulls"`
	// MaxParallelImagePulls is how many images are pulled at a time if they are not serialized; 0 means any number.
	MaxParallelImagePulls int32 `json:"maxParallelImagePulls"`
	// ConfigMapAndSecretChangeDetectionStrategy is ChangeDetectionGet, ChangeDetectionCache or ChangeDetectionWatch.
	ConfigMapAndSecretChangeDetectionStrategy string `json:"configMapAndSecretChangeDetectionStrategy"`
	// PodCertificateRequests keeps the watch of PodCertificateRequests.
	PodCertificateRequests bool `json:"podCertificateRequests"`
	// EnableServer serves the kubelet's API.
	EnableServer bool `json:"enableServer,omitempty"`
	// NodeLeaseDurationSeconds and NodeStatusUpdateFrequency are 0 for the kubelet's defaults, which both profiles have: files of earlier
	// agents do not have them.
	NodeLeaseDurationSeconds  int32           `json:"nodeLeaseDurationSeconds,omitempty"`
	NodeStatusUpdateFrequency metav1.Duration `json:"nodeStatusUpdateFrequency,omitzero"`
}

// The kubelet's defaults of its heartbeats.
const (
	DefaultLeaseSeconds    = 40
	DefaultStatusFrequency = 10 * time.Second
)

// Fast makes pods Ready at once and gone at once, with as few requests and watches as possible. It is what a
// Configuration without Fidelity means; a change of it changes the nodes that run.
func Fast() Fidelity {
	return Fidelity{
		Probes: ProbesSkip,
		Kubelet: Kubelet{
			EventRecordQPS: 5, EventBurst: 20,
			RegistryBurst: 10,
			ConfigMapAndSecretChangeDetectionStrategy: ChangeDetectionCache,
		},
	}
}

// Realistic lets pods start and end in their time, and has the kubelet's own defaults. Containers take a fifth of
// their grace period, 6 of the default 30 seconds: most programs end when they are told to, and few at once.
func Realistic() Fidelity {
	return Fidelity{
		Probes:             ProbesRun,
		TerminationPercent: 20,
		ImagePull:          ImagePull{BytesPerSecond: 50 << 20},
		Kubelet: Kubelet{
			EventRecordQPS: 50, EventBurst: 100,
			RegistryPullQPS: 5, RegistryBurst: 10,
			SerializeImagePulls:                       true,
			ConfigMapAndSecretChangeDetectionStrategy: ChangeDetectionWatch,
			PodCertificateRequests:                    true,
		},
	}
}

// EffectiveFidelity is what c says, or Fast.
func (c Configuration) EffectiveFidelity() Fidelity {
	if c.Fidelity == nil {
		return Fast()
	}
	return *c.Fidelity
}

// Validate reports every setting that no node can have.
func (f Fidelity) Validate() error {
	problems := []error{
		oneOf("probes", f.Probes, ProbesSkip, ProbesRun),
		checkWithin("terminationPercent", int64(f.TerminationPercent), 0, 100),
		checkWithin("imagePull.failurePercent", int64(f.ImagePull.FailurePercent), 0, 100),
		checkWithin("kubelet.eventRecordQPS", int64(f.Kubelet.EventRecordQPS), 0, MaxRate),
		checkWithin("kubelet.eventBurst", int64(f.Kubelet.EventBurst), 1, MaxRate),
		checkWithin("kubelet.registryPullQPS", int64(f.Kubelet.RegistryPullQPS), 0, MaxRate),
		checkWithin("kubelet.registryBurst", int64(f.Kubelet.RegistryBurst), 1, MaxRate),
		checkWithin("kubelet.maxParallelImagePulls", int64(f.Kubelet.MaxParallelImagePulls), 0, MaxRate),
		oneOf("kubelet.configMapAndSecretChangeDetectionStrategy", f.Kubelet.ConfigMapAndSecretChangeDetectionStrategy,
			ChangeDetectionGet, ChangeDetectionCache, ChangeDetectionWatch),
	}
	if rate := f.ImagePull.BytesPerSecond; rate != 0 {
		problems = append(problems, checkWithin("imagePull.bytesPerSecond", rate, MinBytesPerSecond, MaxBytesPerSecond))
	}
	if lease := f.Kubelet.NodeLeaseDurationSeconds; lease != 0 {
		problems = append(problems, checkWithin("kubelet.nodeLeaseDurationSeconds", int64(lease), MinLeaseSeconds, MaxLeaseSeconds))
	}
	if frequency := f.Kubelet.NodeStatusUpdateFrequency.Duration; frequency != 0 && (frequency < MinStatusFrequency || frequency > MaxStatusFrequency) {
		problems = append(problems, fmt.Errorf("kubelet.nodeStatusUpdateFrequency: want a duration from %s to %s, got %s", MinStatusFrequency, MaxStatusFrequency, frequency))
	}
	if f.Kubelet.SerializeImagePulls && f.Kubelet.MaxParallelImagePulls > 1 {
		problems = append(problems, errors.New("kubelet.maxParallelImagePulls: want 0 or 1 with serializeImagePulls"))
	}
	return errors.Join(problems...)
}

func checkWithin(field string, value, low, high int64) error {
	if value < low || value > high {
		return fmt.Errorf("%s: want a number from %d to %d, got %d", field, low, high, value)
	}
	return nil
}

func oneOf(field, value string, allowed ...string) error {
	for _, one := range allowed {
		if value == one {
			return nil
		}
	}
	return fmt.Errorf("%s: want one of %q, got %q", field, allowed, value)
}
