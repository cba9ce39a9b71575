package hollow

import (
	"strings"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/driver"
)

// Claim: Grace periods for shutdowns reach the hollow node, and those that a kubelet refuses are refused. Broken: the priorities are left out.
func TestShutdownGracePeriodsReachTheNode(t *testing.T) {
	got := resolveKubelet(t, kubeletHead+"shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s", "")
	told := got.configuration.KubeletConfiguration
	if told.ShutdownGracePeriod.Duration != 30*time.Second || told.ShutdownGracePeriodCriticalPods.Duration != 10*time.Second || len(got.kubelet.ignored) > 0 {
		t.Errorf("got %+v, ignored %q", told, got.kubelet.ignored)
	}
	got = resolveKubelet(t, kubeletHead+"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 20}, {priority: 1000, shutdownGracePeriodSeconds: 5}]", "")
	if told := got.configuration.KubeletConfiguration.ShutdownGracePeriodByPodPriority; len(told) != 2 || told[1].Priority != 1000 || told[1].Seconds != 5 {
		t.Errorf("got %+v", told)
	}
	for content, want := range map[string]string{
		"shutdownGracePeriod: 10ms":                                      ".shutdownGracePeriod: want 0s or a duration from 1s to 24h, got 10ms",
		"shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 11s": ".shutdownGracePeriodCriticalPods: 11s is more than the shutdownGracePeriod of 10s",
		"shutdownGracePeriod: 10s\nshutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 1}]": ".shutdownGracePeriodByPodPriority: a kubelet takes it or shutdownGracePeriod",
		"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: -1}]":                          "[0].shutdownGracePeriodSeconds: want seconds from 0 to 86400, got -1",
		"shutdownGracePeriodByPodPriority: [{priority: 3}, {priority: 3}]":                                           "[1].priority: 3 is there twice",
	} {
		_, err := resolveDesired("c1", driver.Request{Machine: withKubeletConfiguration(kubeletHead + content), Class: classOf("")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", content, err)
		}
	}
}
