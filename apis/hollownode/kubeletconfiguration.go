package hollownode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a hollow kubelet has of the garbage collection of images unless a KubeletConfiguration says otherwise.
const (
	DefaultImageMinimumGCAge  = 2 * time.Minute
	DefaultImageGCHighPercent = 85
	DefaultImageGCLowPercent  = 80
)

// KubeletConfiguration is what the Machine's KubeletConfiguration says beside what the rest of the Configuration has of it. The fields
// have the names that they have there; 0 and nil are the kubelet's defaults.
type KubeletConfiguration struct {
	// SHA256 is the hash of the text. Another text is another Configuration, whatever it changes.
	SHA256 string `json:"sha256"`
	// Reserved is what of the capacity is not allocatable: kubeReserved, systemReserved and the thresholds of evictionHard.
	Reserved corev1.ResourceList `json:"reserved,omitempty"`

	PodsPerCore                 int32           `json:"podsPerCore,omitempty"`
	KubeAPIQPS                  *int32          `json:"kubeAPIQPS,omitempty"`
	KubeAPIBurst                int32           `json:"kubeAPIBurst,omitempty"`
	NodeStatusReportFrequency   metav1.Duration `json:"nodeStatusReportFrequency,omitzero"`
	ImageMinimumGCAge           metav1.Duration `json:"imageMinimumGCAge,omitzero"`
	ImageMaximumGCAge           metav1.Duration `json:"imageMaximumGCAge,omitzero"`
	ImageGCHighThresholdPercent *int32          `json:"imageGCHighThresholdPercent,omitempty"`
	ImageGCLowThresholdPercent  *int32          `json:"imageGCLowThresholdPercent,omitempty"`

	// ShutdownGracePeriod and ShutdownGracePeriodCriticalPods are 0 with ShutdownGracePeriodByPodPriority. Without any of them pods get no
	// time when their machine shuts down.
	ShutdownGracePeriod              metav1.Duration         `json:"shutdownGracePeriod,omitzero"`
	ShutdownGracePeriodCriticalPods  metav1.Duration         `json:"shutdownGracePeriodCriticalPods,omitzero"`
	ShutdownGracePeriodByPodPriority []PriorityShutdownGrace `json:"shutdownGracePeriodByPodPriority,omitempty"`
	// Evictions is nil without thresholds.
	Evictions *Evictions `json:"evictions,omitempty"`
}

// PriorityShutdownGrace is how long pods of a priority, or of a higher one below the next, get when their machine shuts down.
type PriorityShutdownGrace struct {
	Priority int32 `json:"priority"`
	Seconds  int64 `json:"shutdownGracePeriodSeconds"`
}

// Evictions are the thresholds at which the kubelet evicts pods, by signal, and what belongs to them.
type Evictions struct {
	Hard             map[string]string `json:"evictionHard,omitempty"`
	Soft             map[string]string `json:"evictionSoft,omitempty"`
	SoftGracePeriod  map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	MinimumReclaim   map[string]string `json:"evictionMinimumReclaim,omitempty"`
	TransitionPeriod metav1.Duration   `json:"evictionPressureTransitionPeriod,omitzero"`
	MaxPodGrace      int32             `json:"evictionMaxPodGracePeriod,omitempty"`
}
