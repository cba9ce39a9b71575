package hollow

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/internal/kubeletconfig"
)

// simulatedSignals are those of which a hollow node has figures of its own. Inodes are never used up, and the number of processes would be that
// of the machine that simulates the node.
var simulatedSignals = []string{"memory.available", "nodefs.available", "imagefs.available"}

// longestEviction bounds the periods of evictions.
const longestEviction = 24 * time.Hour

// resolveEvictions is by which thresholds the kubelet evicts pods; nil if there are none that something can reach.
func (c *kubeletConfiguration) resolveEvictions(capacity corev1.ResourceList) (*hollownode.Evictions, error) {
	if err := c.checkEvictions(capacity); err != nil {
		return nil, err
	}
	resolved := &hollownode.Evictions{
		Hard: onlySimulated(c.EvictionHard, "0%", "100%"), Soft: onlySimulated(c.EvictionSoft, "0%", "100%"),
		SoftGracePeriod: onlySimulated(c.EvictionSoftGracePeriod), MinimumReclaim: onlySimulated(c.EvictionMinimumReclaim, "0%"),
		TransitionPeriod: c.EvictionPressureTransitionPeriod, MaxPodGrace: c.EvictionMaxPodGracePeriod,
	}
	if len(resolved.Hard) == 0 && len(resolved.Soft) == 0 {
		return nil, nil
	}
	return resolved, nil
}

// onlySimulated leaves out what the node has no figures of, and the values by which a threshold is none.
func onlySimulated(thresholds map[string]string, none ...string) map[string]string {
	kept := map[string]string{}
	for signal, value := range thresholds {
		if slices.Contains(simulatedSignals, signal) && !slices.Contains(none, value) {
			kept[signal] = value
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// checkEvictions refuses what a kubelet refuses. The values of evictionHard are checked with the reservations.
func (c *kubeletConfiguration) checkEvictions(capacity corev1.ResourceList) error {
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionSoft)) {
		if _, _, err := kubeletconfig.ReadThreshold("evictionSoft", signal, c.EvictionSoft[signal], capacity); err != nil {
			return c.refuseError(err)
		}
		if c.EvictionSoftGracePeriod[signal] == "" {
			return c.refuseField("evictionSoftGracePeriod."+signal, "missing: write how long evictionSoft.%s has to be met, such as 1m30s", signal)
		}
	}
	if err := cmp.Or(c.refuseZero("evictionHard", c.EvictionHard), c.refuseZero("evictionSoft", c.EvictionSoft)); err != nil {
		return err
	}
	if err := c.checkGracePeriods(capacity); err != nil {
		return err
	}
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionMinimumReclaim)) {
		if _, _, err := kubeletconfig.ReadThreshold("evictionMinimumReclaim", signal, c.EvictionMinimumReclaim[signal], capacity); err != nil {
			return c.refuseError(err)
		}
	}
	if period := c.EvictionPressureTransitionPeriod.Duration; period != 0 && (period < time.Second || period > longestEviction) {
		return c.refuseField("evictionPressureTransitionPeriod", "want a duration from 1s to %s, got %s", wholeDuration(longestEviction), period)
	}
	if grace := c.EvictionMaxPodGracePeriod; grace < 0 || time.Duration(grace)*time.Second > longestEviction {
		return c.refuseField("evictionMaxPodGracePeriod", "want seconds from 0 to %d, got %d", int(longestEviction.Seconds()), grace)
	}
	return nil
}

// refuseZero refuses a threshold of nothing, as a kubelet does.
func (c *kubeletConfiguration) refuseZero(field string, thresholds map[string]string) error {
	for _, signal := range slices.Sorted(maps.Keys(thresholds)) {
		if quantity, err := resource.ParseQuantity(thresholds[signal]); err == nil && quantity.IsZero() {
			return c.refuseField(field+"."+signal, "a kubelet refuses %s: write 0%% to turn the threshold off, or more", thresholds[signal])
		}
	}
	return nil
}

func (c *kubeletConfiguration) checkGracePeriods(capacity corev1.ResourceList) error {
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionSoftGracePeriod)) {
		if _, _, err := kubeletconfig.ReadThreshold("evictionSoftGracePeriod", signal, "0", capacity); err != nil {
			return c.refuseError(err) // No such signal.
		}
		period, err := time.ParseDuration(c.EvictionSoftGracePeriod[signal])
		if err != nil || period < 0 || period > longestEviction {
			return c.refuseField("evictionSoftGracePeriod."+signal, "want a duration from 0s to %s, got %q", wholeDuration(longestEviction), c.EvictionSoftGracePeriod[signal])
		}
	}
	return nil
}

// refuseError turns what is wrong with a field into the error of it.
func (c *kubeletConfiguration) refuseError(err error) error {
	var field *kubeletconfig.FieldError
	if errors.As(err, &field) {
		return c.refuseField(field.Field, "%s", field.Problem)
	}
	return err
}
