package hollownode

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"

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
