package hollownode

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// settled is what the profiles set of a kubelet's configuration.
func settled(s *kubeletconfig.KubeletConfiguration) contract.Kubelet {
	strategies := map[kubeletconfig.ResourceChangeDetectionStrategy]string{
		kubeletconfig.GetChangeDetectionStrategy:      contract.ChangeDetectionGet,
		kubeletconfig.TTLCacheChangeDetectionStrategy: contract.ChangeDetectionCache,
		kubeletconfig.WatchChangeDetectionStrategy:    contract.ChangeDetectionWatch,
	}
	settled := contract.Kubelet{
		EventRecordQPS: s.EventRecordQPS, EventBurst: s.EventBurst,
		RegistryPullQPS: s.RegistryPullQPS, RegistryBurst: s.RegistryBurst, SerializeImagePulls: s.SerializeImagePulls,
		ConfigMapAndSecretChangeDetectionStrategy: strategies[s.ConfigMapAndSecretChangeDetectionStrategy],
	}
	if s.MaxParallelImagePulls != nil {
		settled.MaxParallelImagePulls = *s.MaxParallelImagePulls
	}
	return settled
}

// Claim: Realistic has the kubelet's defaults. Broken: other strategy and bursts.
func TestTheKubeletHasTheSettingsOfTheConfiguration(t *testing.T) {
	changed := contract.Fast()
	changed.Kubelet.MaxParallelImagePulls = 7
	changed.Kubelet.ConfigMapAndSecretChangeDetectionStrategy = contract.ChangeDetectionGet
	realistic := contract.Realistic()
	for name, test := range map[string]struct {
		fidelity *contract.Fidelity
		want     contract.Kubelet
	}{
		"nothing":   {nil, contract.Kubelet{EventRecordQPS: 5, EventBurst: 20, RegistryBurst: 10, ConfigMapAndSecretChangeDetectionStrategy: "Cache"}},
		"changed":   {&changed, contract.Kubelet{EventRecordQPS: 5, EventBurst: 20, RegistryBurst: 10, MaxParallelImagePulls: 7, ConfigMapAndSecretChangeDetectionStrategy: "Get"}},
		"Realistic": {&realistic, settled(upstreamDefaults(t))},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := testConfiguration()
			configuration.Fidelity = test.fidelity
			settings, err := kubeletSettings(configuration, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if got := settled(settings); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// Claim: What the agent lets through of a KubeletConfiguration, the kubelet's own validation lets through too. Broken: a reserved quantity is not told; 0 pods for each core are set as the default. Also: agent/driver/hollow TestKubeletConfigurationsAreReadStrictly.
func TestTheKubeletTakesWhatTheAgentLetsThrough(t *testing.T) {
	for name, c := range map[string]contract.KubeletConfiguration{
		"nothing": {SHA256: "x"},
		"least": {
			SHA256: "x", PodsPerCore: 1, KubeAPIQPS: new(int32(0)), KubeAPIBurst: 1, ImageGCHighThresholdPercent: new(int32(1)), ImageGCLowThresholdPercent: new(int32(0)),
			NodeStatusReportFrequency: metav1.Duration{Duration: time.Second}, ImageMinimumGCAge: metav1.Duration{Duration: time.Second}, ImageMaximumGCAge: metav1.Duration{Duration: 2 * time.Second},
		},
		"most": {
			SHA256: "x", PodsPerCore: 1000, KubeAPIQPS: new(int32(contract.MaxRate)), KubeAPIBurst: contract.MaxRate, ImageGCHighThresholdPercent: new(int32(100)), ImageGCLowThresholdPercent: new(int32(99)),
			NodeStatusReportFrequency: metav1.Duration{Duration: time.Hour}, ImageMaximumGCAge: metav1.Duration{Duration: 10 * 365 * 24 * time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := testConfiguration()
			configuration.KubeletConfiguration = &c
			settings, err := kubeletSettings(configuration, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if c.PodsPerCore != settings.PodsPerCore || c.KubeAPIQPS != nil && *c.KubeAPIQPS != settings.KubeAPIQPS {
				t.Errorf("got %d pods for each core, and %d requests a second", settings.PodsPerCore, settings.KubeAPIQPS)
			}
			// What a hollow node does without.
			upstream := upstreamDefaults(t)
			settings.Port, settings.ContainerLogMaxSize, settings.VolumeStatsAggPeriod = upstream.Port, upstream.ContainerLogMaxSize, upstream.VolumeStatsAggPeriod
			settings.ContainerRuntimeEndpoint, settings.FailCgroupV1 = "unix:///run/x.sock", false // This is about the machine that the test runs on.
			if err := validation.ValidateKubeletConfiguration(settings, utilfeature.DefaultFeatureGate); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReservedResourcesAreNotAllocatable(t *testing.T) {
	configuration := testConfiguration()
	reservation := func() corev1.ResourceList {
		made, err := newResources(t.Context(), configuration, &hardware{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return made.GetNodeAllocatableReservation()
	}
	if reserved := reservation(); len(reserved) != 0 {
		t.Errorf("got %v", reserved)
	}
	configuration.KubeletConfiguration = &contract.KubeletConfiguration{Reserved: corev1.ResourceList{"cpu": resource.MustParse("1")}}
	if reserved := reservation(); reserved.Cpu().Value() != 1 {
		t.Errorf("got %v", reserved)
	}
}

// upstreamDefaults is what a kubelet has whose configuration says nothing.
func upstreamDefaults(t *testing.T) *kubeletconfig.KubeletConfiguration {
	t.Helper()
	var versioned kubeletconfigv1beta1.KubeletConfiguration
	v1beta1.SetDefaults_KubeletConfiguration(&versioned)
	settings := &kubeletconfig.KubeletConfiguration{}
	if err := v1beta1.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(&versioned, settings, nil); err != nil {
		t.Fatal(err)
	}
	return settings
}

func TestANodeSaysThatItsHeartbeatsAreNotTheKubelets(t *testing.T) {
	for name, test := range map[string]struct {
		kubelet   contract.Kubelet
		lease     int32
		frequency time.Duration
		labels    map[string]string
	}{
		"default": {contract.Kubelet{}, 40, 10 * time.Second, map[string]string{"a": "b"}},
		"slow": {
			contract.Kubelet{NodeLeaseDurationSeconds: 120, NodeStatusUpdateFrequency: metav1.Duration{Duration: 90 * time.Second}}, 120, 90 * time.Second,
			map[string]string{"a": "b", leaseLabel: "120", frequencyLabel: "1m30s"},
		},
		"one of them": {contract.Kubelet{NodeLeaseDurationSeconds: 20}, 20, 10 * time.Second, map[string]string{"a": "b", leaseLabel: "20"}},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := testConfiguration()
			fidelity := contract.Fast()
			fidelity.Kubelet.NodeLeaseDurationSeconds, fidelity.Kubelet.NodeStatusUpdateFrequency = test.kubelet.NodeLeaseDurationSeconds, test.kubelet.NodeStatusUpdateFrequency
			configuration.Fidelity = &fidelity
			settings, err := kubeletSettings(configuration, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if settings.NodeLeaseDurationSeconds != test.lease || settings.NodeStatusUpdateFrequency.Duration != test.frequency {
				t.Errorf("got %d and %s", settings.NodeLeaseDurationSeconds, settings.NodeStatusUpdateFrequency.Duration)
			}
			// A Node that had other settings before.
			registered := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b", leaseLabel: "77", frequencyLabel: "77s"}}}
			if err := (&node{configuration: configuration}).setHeartbeatLabels(t.Context(), registered); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(registered.Labels, test.labels) {
				t.Errorf("got labels %v, want %v", registered.Labels, test.labels)
			}
		})
	}
}
