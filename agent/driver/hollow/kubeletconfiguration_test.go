package hollow

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// withKubeletConfiguration is a Machine with that content.
func withKubeletConfiguration(content string) *v1alpha1.Machine {
	machine := testMachine()
	machine.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "workers", Resolved: &v1alpha1.ResolvedConfigSource{Key: "workers", Content: content}}
	return machine
}

func resolveKubelet(t *testing.T, content, config string) desired {
	t.Helper()
	got, err := resolveDesired("c1", driver.Request{Machine: withKubeletConfiguration(content), Class: classOf(config)})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Claim: What a KubeletConfiguration sets reaches the hollow node, and goes before the class. Broken: the class is put over it.
func TestAKubeletConfigurationGoesBeforeTheClass(t *testing.T) {
	const class = `{` + head + `,"maxPods":20,"profile":"Realistic","kubelet":{"eventBurst":7,"registryBurst":3}}`
	got := resolveKubelet(t, kubeletHead+`
maxPods: 30
podsPerCore: 5
eventBurst: 9
serializeImagePulls: false
maxParallelImagePulls: 4
nodeLeaseDurationSeconds: 20
nodeStatusUpdateFrequency: 20s
kubeAPIQPS: 11
kubeAPIBurst: 22
configMapAndSecretChangeDetectionStrategy: Cache
kubeReserved: {cpu: 500m, memory: 1Gi}
systemReserved: {cpu: 500m}
evictionHard: {memory.available: 25%, nodefs.available: 10Gi, pid.available: 10%}
registerWithTaints: [{key: a, effect: NoSchedule}]
`, class)
	c := got.configuration
	if c.MaxPods != 30 {
		t.Errorf("maxPods: got %d", c.MaxPods)
	}
	want := hollownode.Realistic().Kubelet
	want.EventBurst, want.RegistryBurst = 9, 3
	want.SerializeImagePulls, want.MaxParallelImagePulls = false, 4
	want.NodeLeaseDurationSeconds, want.NodeStatusUpdateFrequency.Duration = 20, 20*time.Second
	want.ConfigMapAndSecretChangeDetectionStrategy = hollownode.ChangeDetectionCache
	if k := c.EffectiveFidelity().Kubelet; k != want {
		t.Errorf("kubelet:\n got %+v\nwant %+v", k, want)
	}
	told := c.KubeletConfiguration
	if told.PodsPerCore != 5 || *told.KubeAPIQPS != 11 || told.KubeAPIBurst != 22 || told.NodeStatusReportFrequency.Duration != 20*time.Second {
		t.Errorf("kubelet configuration: got %+v", told)
	}
	for name, reserved := range map[corev1.ResourceName]string{"cpu": "1", "memory": "5Gi", "ephemeral-storage": "10Gi"} {
		if quantity := told.Reserved[name]; quantity.String() != reserved {
			t.Errorf("reserved %s: got %s, want %s", name, quantity.String(), reserved)
		}
	}
	if len(c.Taints) != 1 || c.Taints[0].Key != "a" {
		t.Errorf("taints: got %v", c.Taints)
	}
}

// Claim: Another content is another pod; no configuration leaves pods of earlier agents alone. Broken: a comment leaves the pod.
func TestAnotherContentIsAnotherPod(t *testing.T) {
	none, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: classOf("")})
	if err != nil {
		t.Fatal(err)
	}
	if none.configuration.KubeletConfiguration != nil {
		t.Error("without one there is one")
	}
	first, second := resolveKubelet(t, kubeletHead, ""), resolveKubelet(t, kubeletHead+"# a comment\n", "")
	hashes := []string{none.configurationHash, first.configurationHash, second.configurationHash}
	slices.Sort(hashes)
	if len(slices.Compact(hashes)) != 3 {
		t.Error("two of them have one hash")
	}
	pod := renderPod("c1", "host", "m1", "image", first)
	if got := pod.Annotations[kubeletConfigurationAnnotation]; got != v1alpha1.ContentHash(kubeletHead) {
		t.Errorf("the pod says %q", got)
	}
}

// A configuration as kubeadm writes it: most of its fields are for what a hollow node does not have.
const kubeadmConfiguration = kubeletHead + `
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`

func TestAConfigurationOfKubeadmIsTaken(t *testing.T) {
	got := resolveKubelet(t, kubeadmConfiguration, "")
	want := []string{
		"authentication", "authorization", "cgroupDriver", "clusterDNS", "clusterDomain", "containerRuntimeEndpoint",
		"healthzBindAddress", "healthzPort", "logging", "rotateCertificates", "staticPodPath",
	}
	if !slices.Equal(got.kubelet.ignored, want) {
		t.Errorf("ignored:\n got %q\nwant %q", got.kubelet.ignored, want)
	}
}

// Claim: A KubeletConfiguration is read strictly, and what is refused is named. Broken: unknown fields are dropped. Edge case: a bomb of aliases.
func TestKubeletConfigurationsAreReadStrictly(t *testing.T) {
	bomb := kubeletHead + "x: &a [1,1,1,1,1,1,1,1,1]\ny: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nz: [*b,*b,*b,*b,*b,*b,*b]\n"
	for content, want := range map[string]string{
		"just text":                  "not a KubeletConfiguration: write an object",
		"":                           "not a KubeletConfiguration: write an object",
		"{":                          "not a KubeletConfiguration",
		"kind: KubeletConfiguration": "want apiVersion kubelet.config.k8s.io/v1beta1 and kind KubeletConfiguration",
		strings.Replace(kubeletHead, "v1beta1", "v1alpha1", 1):              "want apiVersion kubelet.config.k8s.io/v1beta1",
		kubeletHead + "maxpods: 5":                                          `unknown field "maxpods"`,
		kubeletHead + "authentication: {anonymus: {}}":                      `unknown field "authentication.anonymus"`,
		kubeletHead + "maxPods: 5\nmaxPods: 6":                              "maxPods",
		kubeletHead + "maxPods: many":                                       "maxPods",
		kubeletHead + "---\n" + kubeletHead:                                 "more than one object",
		bomb:                                                                "anchor or an alias",
		kubeletHead + "maxPods: 1001":                                       ".maxPods: want a whole number from 1 to 1000, got 1001",
		kubeletHead + "maxPods: -1":                                         ".maxPods: want a whole number",
		kubeletHead + "eventBurst: -1":                                      ".eventBurst: want",
		kubeletHead + "nodeStatusUpdateFrequency: 1ms":                      ".nodeStatusUpdateFrequency: want a duration from 1s to 5m, got 1ms",
		kubeletHead + "nodeLeaseDurationSeconds: 3":                         ".nodeLeaseDurationSeconds: want",
		kubeletHead + "featureGates: {PodCertificateRequest: true}":         ".featureGates: hollow nodes share processes and their feature gates: remove PodCertificateRequest",
		kubeletHead + "registerNode: false":                                 ".registerNode: ",
		kubeletHead + "providerID: x":                                       ".providerID: ",
		kubeletHead + "runOnce: true":                                       ".runOnce: ",
		kubeletHead + "kubeReserved: {gpu: 1}":                              "kubeReserved",
		kubeletHead + `kubeReserved: {gpu: "1"}`:                            ".kubeReserved.gpu: want cpu, memory, ephemeral-storage, pid",
		kubeletHead + `systemReserved: {memory: "-1"}`:                      ".systemReserved.memory: want",
		kubeletHead + "systemReserved: {memory: 20Gi}":                      "20Gi of memory is reserved, and the node has 16Gi: reserve less",
		kubeletHead + "evictionHard: {memory.free: 1Gi}":                    ".evictionHard.memory.free: no eviction signal",
		kubeletHead + "evictionHard: {memory.available: 101%}":              "want a percentage from 0% to 100%",
		kubeletHead + "evictionHard: {memory.available: NaN%}":              "want a percentage from 0% to 100%",
		kubeletHead + "evictionHard: {memory.available: lots}":              `want a quantity such as 100Mi or a percentage such as 10%, got "lots"`,
		kubeletHead + "imageMaximumGCAge: 1m":                               ".imageMaximumGCAge: 1m0s is not more than the imageMinimumGCAge of 2m0s",
		kubeletHead + "imageGCHighThresholdPercent: 70":                     ".imageGCLowThresholdPercent: 80 is not less than the imageGCHighThresholdPercent of 70",
		kubeletHead + "registerWithTaints: [{key: a, effect: Never}]":       `.registerWithTaints[0]: effect "Never" of key "a": want NoSchedule`,
		kubeletHead + "serializeImagePulls: true\nmaxParallelImagePulls: 3": "cannot pull 3 images at a time",
		kubeletHead + "configMapAndSecretChangeDetectionStrategy: Poll":     "want Watch, Cache or Get",
	} {
		_, err := resolveDesired("c1", driver.Request{Machine: withKubeletConfiguration(content), Class: classOf("")})
		if !errors.Is(err, driver.ErrInvalidConfiguration) || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "spec.configSource (key workers of ConfigMap hollowfleet-kubelet)") {
			t.Errorf("%q:\n got %v\nwant %s", content, err, want)
		}
	}
}

func TestHonouredFieldsAreFields(t *testing.T) {
	var fields []string
	kind := reflect.TypeFor[kubeletconfig.KubeletConfiguration]()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	for _, name := range honouredFields {
		if name != "apiVersion" && name != "kind" && !slices.Contains(fields, name) {
			t.Errorf("%s is not one", name)
		}
	}
}

func FuzzKubeletConfigurations(f *testing.F) {
	f.Add(kubeadmConfiguration)
	f.Add(kubeletHead + "evictionHard: {memory.available: 1e3%}")
	f.Fuzz(func(t *testing.T, content string) {
		got, err := resolveDesired("c1", driver.Request{Machine: withKubeletConfiguration(content), Class: classOf("")})
		if err != nil {
			return
		}
		if _, err := hollownode.Marshal(got.configuration); err != nil {
			t.Error(err)
		}
	})
}
