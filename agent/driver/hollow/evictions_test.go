package hollow

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// Claim: Eviction thresholds reach the hollow node, as far as it has figures of its own. Broken: pid.available, which would be measured on the machine that simulates.
func TestEvictionThresholdsReachTheNode(t *testing.T) {
	for content, want := range map[string]*hollownode.Evictions{
		"":                                   nil,
		"evictionHard: {pid.available: 10%}": nil,
		"evictionHard: {memory.available: 0%, nodefs.available: 100%}":     nil,
		"evictionPressureTransitionPeriod: 30s":                            nil,
		"evictionHard: {memory.available: 1Gi, nodefs.inodesFree: \"5%\"}": {Hard: map[string]string{"memory.available": "1Gi"}},
		"evictionSoft: {memory.available: 2Gi, pid.available: 5%}\nevictionSoftGracePeriod: {memory.available: 1m30s, pid.available: 1m}\n" +
			"evictionMinimumReclaim: {memory.available: 100Mi}\nevictionPressureTransitionPeriod: 30s\nevictionMaxPodGracePeriod: 60": {
			Soft: map[string]string{"memory.available": "2Gi"}, SoftGracePeriod: map[string]string{"memory.available": "1m30s"},
			MinimumReclaim:   map[string]string{"memory.available": "100Mi"},
			TransitionPeriod: metav1.Duration{Duration: 30 * time.Second}, MaxPodGrace: 60,
		},
	} {
		got := resolveKubelet(t, kubeletHead+content, "")
		if !reflect.DeepEqual(got.configuration.KubeletConfiguration.Evictions, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", content, got.configuration.KubeletConfiguration.Evictions, want)
		}
		if len(got.kubelet.ignored) > 0 {
			t.Errorf("%s: ignored %q", content, got.kubelet.ignored)
		}
	}
}

func TestBadEvictionThresholdsAreRefused(t *testing.T) {
	for content, want := range map[string]string{
		"evictionSoft: {memory.available: 1Gi}":                                                   ".evictionSoftGracePeriod.memory.available: missing: write how long evictionSoft.memory.available has to be met, such as 1m30s",
		"evictionSoft: {memory.free: 1Gi}":                                                        ".evictionSoft.memory.free: no eviction signal: want",
		"evictionSoft: {memory.available: much}\nevictionSoftGracePeriod: {memory.available: 1m}": ".evictionSoft.memory.available: want a quantity",
		"evictionSoftGracePeriod: {memory.available: soon}":                                       `.evictionSoftGracePeriod.memory.available: want a duration from 0s to 24h, got "soon"`,
		"evictionSoftGracePeriod: {memory: 1m}":                                                   ".evictionSoftGracePeriod.memory: no eviction signal",
		"evictionMinimumReclaim: {memory.available: \"-1\"}":                                      ".evictionMinimumReclaim.memory.available: want a quantity",
		"evictionPressureTransitionPeriod: 10ms":                                                  ".evictionPressureTransitionPeriod: want a duration from 1s to 24h, got 10ms",
		"evictionHard: {memory.available: \"0\"}":                                                 ".evictionHard.memory.available: a kubelet refuses 0: write 0% to turn the threshold off, or more",
		"evictionMaxPodGracePeriod: -1":                                                           ".evictionMaxPodGracePeriod: want seconds from 0 to 86400, got -1",
		"evictionHard: {memory.available: 1Ti}":                                                   ".kubeReserved: with systemReserved and evictionHard, 1Ti of memory is reserved",
	} {
		_, err := resolveDesired("c1", driver.Request{Machine: withKubeletConfiguration(kubeletHead + content), Class: classOf("")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", content, err)
		}
	}
}
