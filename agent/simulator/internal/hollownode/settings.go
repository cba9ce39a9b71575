package hollownode

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
)

// Labels of every hollow Node; apis/v1alpha1 documents them.
const (
	hollowLabel    = "hollowfleet.io/hollow"
	leaseLabel     = "hollowfleet.io/node-lease-duration-seconds"
	frequencyLabel = "hollowfleet.io/node-status-update-frequency"
)

// kubeletSettings is the kubelet's configuration: its own defaults, but for what needs a real machine,
// costs time or memory without being seen in the API, or would slow down many pods at once.
func kubeletSettings(c contract.Configuration, stateDir string) (*kubeletconfig.KubeletConfiguration, error) {
	settings := &kubeletconfig.KubeletConfiguration{}
	if err := v1beta1.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(kubeletDefaults().DeepCopy(), settings, nil); err != nil {
		return nil, fmt.Errorf("making the kubelet's configuration: %w", err)
	}

	// The number of the port comes when it is open. What its server shows of the process or its machine is turned off.
	settings.EnableServer = c.EffectiveFidelity().Kubelet.EnableServer
	settings.EnableSystemLogHandler, settings.EnableProfilingHandler, settings.EnableDebugFlagsHandler = false, false, false
	settings.Port, settings.ReadOnlyPort, settings.HealthzPort = 0, 0, 0
	settings.PodLogsDir = filepath.Join(stateDir, "pod-logs")
	settings.StaticPodPath = ""
	settings.ResolverConfig = ""
	// Without an address the kubelet complains of every pod; no container ever uses it.
	settings.ClusterDNS, settings.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"

	settings.ProviderID = c.ProviderID
	settings.MaxPods = c.MaxPods
	settings.RegisterNode = true
	settings.RegisterWithTaints = c.Taints
	settings.EnableControllerAttachDetach = true

	settings.CgroupsPerQOS = false
	settings.CgroupRoot = ""
	settings.EnforceNodeAllocatable = nil
	settings.LocalStorageCapacityIsolation = false
	settings.MakeIPTablesUtilChains = false
	settings.ProtectKernelDefaults = false
	settings.FailSwapOn = false

	settings.ImageGCHighThresholdPercent, settings.ImageGCLowThresholdPercent = contract.DefaultImageGCHighPercent, contract.DefaultImageGCLowPercent

	settings.VolumeStatsAggPeriod = metav1.Duration{Duration: -time.Second} // off
	settings.ContainerLogMaxSize = "-1"                                     // no rotation
	setKubelet(settings, c.EffectiveFidelity().Kubelet)
	if c.KubeletConfiguration != nil {
		setFromConfiguration(settings, *c.KubeletConfiguration)
	}
	return settings, nil
}

// setFromConfiguration sets what the Machine's KubeletConfiguration says. The agent has checked its values.
func setFromConfiguration(settings *kubeletconfig.KubeletConfiguration, c contract.KubeletConfiguration) {
	settings.PodsPerCore = c.PodsPerCore
	if e := c.Evictions; e != nil {
		settings.EvictionHard, settings.EvictionSoft = e.Hard, e.Soft
		settings.EvictionSoftGracePeriod, settings.EvictionMinimumReclaim = e.SoftGracePeriod, e.MinimumReclaim
		settings.EvictionMaxPodGracePeriod = e.MaxPodGrace
		// The manager runs: it also evicts pods that write more than their limits of ephemeral storage.
		settings.LocalStorageCapacityIsolation = true
		setUnlessZero(&settings.EvictionPressureTransitionPeriod, e.TransitionPeriod)
	}
	settings.ShutdownGracePeriod, settings.ShutdownGracePeriodCriticalPods = c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods
	for _, p := range c.ShutdownGracePeriodByPodPriority {
		settings.ShutdownGracePeriodByPodPriority = append(settings.ShutdownGracePeriodByPodPriority,
			kubeletconfig.ShutdownGracePeriodByPodPriority{Priority: p.Priority, ShutdownGracePeriodSeconds: p.Seconds})
	}
	setUnlessZero(&settings.KubeAPIBurst, c.KubeAPIBurst)
	setUnlessZero(&settings.NodeStatusReportFrequency, c.NodeStatusReportFrequency)
	setUnlessZero(&settings.ImageMinimumGCAge, c.ImageMinimumGCAge)
	setUnlessZero(&settings.ImageMaximumGCAge, c.ImageMaximumGCAge)
	for target, value := range map[*int32]*int32{
		&settings.KubeAPIQPS:                  c.KubeAPIQPS,
		&settings.ImageGCHighThresholdPercent: c.ImageGCHighThresholdPercent,
		&settings.ImageGCLowThresholdPercent:  c.ImageGCLowThresholdPercent,
	} {
		if value != nil {
			*target = *value
		}
	}
}

func setUnlessZero[T comparable](target *T, value T) {
	var zero T
	if value != zero {
		*target = value
	}
}

// setKubelet sets what the configuration says of the kubelet.
func setKubelet(settings *kubeletconfig.KubeletConfiguration, k contract.Kubelet) {
	settings.EventRecordQPS, settings.EventBurst = k.EventRecordQPS, k.EventBurst
	settings.RegistryPullQPS, settings.RegistryBurst = k.RegistryPullQPS, k.RegistryBurst
	settings.SerializeImagePulls = k.SerializeImagePulls
	if k.MaxParallelImagePulls > 0 {
		settings.MaxParallelImagePulls = &k.MaxParallelImagePulls
	}
	settings.ConfigMapAndSecretChangeDetectionStrategy = map[string]kubeletconfig.ResourceChangeDetectionStrategy{
		contract.ChangeDetectionGet:   kubeletconfig.GetChangeDetectionStrategy,
		contract.ChangeDetectionCache: kubeletconfig.TTLCacheChangeDetectionStrategy,
		contract.ChangeDetectionWatch: kubeletconfig.WatchChangeDetectionStrategy,
	}[k.ConfigMapAndSecretChangeDetectionStrategy]
	settings.NodeLeaseDurationSeconds = cmp.Or(k.NodeLeaseDurationSeconds, contract.DefaultLeaseSeconds)
	settings.NodeStatusUpdateFrequency.Duration = cmp.Or(k.NodeStatusUpdateFrequency.Duration, contract.DefaultStatusFrequency)
}

// setFeatureGates turns off what holds a watch open for something that hardly any pod uses, unless the configuration
// asks for it, and user namespaces, for which a kubelet wants to read /etc/passwd: an image made from scratch has none.
func setFeatureGates(wanted featureGates) error {
	gates := utilfeature.DefaultMutableFeatureGate
	if err := gates.SetFromMap(map[string]bool{string(features.PodCertificateRequest): wanted.podCertificateRequests}); err != nil {
		return err
	}
	return disableLocked(gates, features.UserNamespacesSupport)
}

// nodeLabels are the configured labels and those that every hollow Node has.
func nodeLabels(c contract.Configuration) map[string]string {
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[hollowLabel] = "true"
	maps.Copy(labels, versionLabels(c.KubeletVersion, kubeletversion.BuiltIn()))
	return labels
}

// setHeartbeatLabels lets the Node say how often it reports, unless that is what kubelets do. It is a status setter: a Node that exists
// already gets no labels when its kubelet starts again with other settings.
func (n *node) setHeartbeatLabels(_ context.Context, node *corev1.Node) error {
	kubelet := n.configuration.EffectiveFidelity().Kubelet
	for key, value := range map[string]string{
		leaseLabel:     strconv.Itoa(int(kubelet.NodeLeaseDurationSeconds)),
		frequencyLabel: kubelet.NodeStatusUpdateFrequency.Duration.String(),
	} {
		if value == "0" || value == "0s" {
			delete(node.Labels, key)
			continue
		}
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[key] = value
	}
	return nil
}
