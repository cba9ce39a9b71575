package hollow

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const maxPercent = 100

// fidelityOf is what config makes of its profile; nil if that is Fast, so that a Machine which asks for what it has
// keeps its pod.
func fidelityOf(config v1alpha1.HollowNodeConfig, path string) (*hollownode.Fidelity, error) {
	fidelity := hollownode.Fast()
	if config.Profile == v1alpha1.HollowNodeProfileRealistic {
		fidelity = hollownode.Realistic()
	}
	if config.Probes != "" {
		fidelity.Probes = string(config.Probes)
	}
	replaceIfSet(&fidelity.TerminationPercent, config.TerminationPercent)
	fidelity.RegisterOnce = config.Registration == v1alpha1.HollowRegistrationOnce
	if pull := config.ImagePull; pull != nil {
		if pull.BytesPerSecond != nil {
			fidelity.ImagePull.BytesPerSecond = pull.BytesPerSecond.Value()
		}
		replaceIfSet(&fidelity.ImagePull.FailurePercent, pull.FailurePercent)
		replaceIfSet(&fidelity.ImagePull.Seed, pull.Seed)
	}
	if fidelity.ImagePull.FailurePercent == 0 {
		fidelity.ImagePull.Seed = 0 // It decides nothing.
	}
	if err := setKubelet(&fidelity.Kubelet, config.Kubelet, path); err != nil {
		return nil, err
	}
	if fidelity == hollownode.Fast() {
		return nil, nil
	}
	return &fidelity, nil
}

func setKubelet(kubelet *hollownode.Kubelet, config *v1alpha1.HollowKubelet, path string) error {
	if config == nil {
		return nil
	}
	replaceIfSet(&kubelet.EventRecordQPS, config.EventRecordQPS)
	replaceIfSet(&kubelet.EventBurst, config.EventBurst)
	replaceIfSet(&kubelet.RegistryPullQPS, config.RegistryPullQPS)
	replaceIfSet(&kubelet.RegistryBurst, config.RegistryBurst)
	replaceIfSet(&kubelet.MaxParallelImagePulls, config.MaxParallelImagePulls)
	parallel := kubelet.MaxParallelImagePulls > 1
	switch serialize := config.SerializeImagePulls; {
	case serialize == nil:
		// The kubelet's own default.
		kubelet.SerializeImagePulls = kubelet.SerializeImagePulls && !parallel
	case *serialize && parallel:
		return driver.Invalid(path+".kubelet.maxParallelImagePulls",
			"cannot pull %d images at a time while images are pulled one by one: set serializeImagePulls to false, or remove one of the two", kubelet.MaxParallelImagePulls)
	default:
		kubelet.SerializeImagePulls = *serialize
	}
	if config.ConfigMapAndSecretChangeDetectionStrategy != "" {
		kubelet.ConfigMapAndSecretChangeDetectionStrategy = string(config.ConfigMapAndSecretChangeDetectionStrategy)
	}
	replaceIfSet(&kubelet.PodCertificateRequests, config.PodCertificateRequests)
	replaceIfSet(&kubelet.EnableServer, config.EnableServer)
	// The kubelet's defaults are written as nothing, so that a Machine which asks for what it has keeps its pod.
	if lease := config.NodeLeaseDurationSeconds; lease != nil && *lease != hollownode.DefaultLeaseSeconds {
		kubelet.NodeLeaseDurationSeconds = *lease
	}
	if frequency := config.NodeStatusUpdateFrequency; frequency != nil && frequency.Duration != hollownode.DefaultStatusFrequency {
		kubelet.NodeStatusUpdateFrequency = *frequency
	}
	return nil
}

func replaceIfSet[T any](target, with *T) {
	if with != nil {
		*target = *with
	}
}

func imagePull(target **v1alpha1.HollowImagePull) setter {
	return func(value json.RawMessage, path string) error {
		pull := &v1alpha1.HollowImagePull{}
		*target = pull
		return readObject(value, path, "imagePull", map[string]setter{
			"bytesPerSecond": byteRate(&pull.BytesPerSecond),
			"failurePercent": readNumber(&pull.FailurePercent, 0, maxPercent),
			"seed":           readSeed(&pull.Seed),
		})
	}
}

func readKubelet(target **v1alpha1.HollowKubelet) setter {
	return func(value json.RawMessage, path string) error {
		k := &v1alpha1.HollowKubelet{}
		*target = k
		return readObject(value, path, "kubelet", map[string]setter{
			"eventRecordQPS":        readNumber(&k.EventRecordQPS, 0, hollownode.MaxRate),
			"eventBurst":            readNumber(&k.EventBurst, 1, hollownode.MaxRate),
			"registryPullQPS":       readNumber(&k.RegistryPullQPS, 0, hollownode.MaxRate),
			"registryBurst":         readNumber(&k.RegistryBurst, 1, hollownode.MaxRate),
			"serializeImagePulls":   readBoolean(&k.SerializeImagePulls),
			"maxParallelImagePulls": readNumber(&k.MaxParallelImagePulls, 1, hollownode.MaxRate),
			"configMapAndSecretChangeDetectionStrategy": oneOf(&k.ConfigMapAndSecretChangeDetectionStrategy,
				v1alpha1.ChangeDetectionWatch, v1alpha1.ChangeDetectionCache, v1alpha1.ChangeDetectionGet),
			"podCertificateRequests":    readBoolean(&k.PodCertificateRequests),
			"enableServer":              readBoolean(&k.EnableServer),
			"nodeLeaseDurationSeconds":  readNumber(&k.NodeLeaseDurationSeconds, hollownode.MinLeaseSeconds, hollownode.MaxLeaseSeconds),
			"nodeStatusUpdateFrequency": readDuration(&k.NodeStatusUpdateFrequency, hollownode.MinStatusFrequency, hollownode.MaxStatusFrequency),
		})
	}
}

// readObject reads an object of the fields that read has setters for.
func readObject(value json.RawMessage, path, owner string, read map[string]setter) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil || fields == nil {
		return driver.Invalid(path, "want an object, got %s", formatValue(value))
	}
	return setFields(fields, read, path, owner)
}

func oneOf[T ~string](target *T, allowed ...T) setter {
	return func(value json.RawMessage, path string) error {
		var text T
		if err := json.Unmarshal(value, &text); err != nil || !slices.Contains(allowed, text) {
			names := make([]string, len(allowed))
			for i, name := range allowed {
				names[i] = string(name)
			}
			return driver.Invalid(path, "want %s, got %s", strings.Join(names, " or "), formatValue(value))
		}
		*target = text
		return nil
	}
}

func readBoolean(target **bool) setter {
	return func(value json.RawMessage, path string) error {
		if err := json.Unmarshal(value, target); err != nil || *target == nil {
			return driver.Invalid(path, "want true or false, got %s", formatValue(value))
		}
		return nil
	}
}

func readSeed(target **int64) setter {
	return func(value json.RawMessage, path string) error {
		if err := json.Unmarshal(value, target); err != nil || *target == nil {
			return driver.Invalid(path, "want a whole number, got %s", formatValue(value))
		}
		return nil
	}
}

// byteRate reads a quantity of bytes per second.
func byteRate(target **resource.Quantity) setter {
	return func(value json.RawMessage, path string) error {
		quantity, err := v1alpha1.DecodeQuantity(value)
		if err != nil || !isByteRate(quantity) {
			return driver.Invalid(path, `want bytes per second such as "50Mi", from 64Ki to 1Ti, or "0" for pulls that take no time, got %s`, formatValue(value))
		}
		*target = &quantity
		return nil
	}
}

// isByteRate reports whether a node can pull images at that rate.
func isByteRate(rate resource.Quantity) bool {
	low, high := *resource.NewQuantity(hollownode.MinBytesPerSecond, resource.BinarySI), *resource.NewQuantity(hollownode.MaxBytesPerSecond, resource.BinarySI)
	return rate.IsZero() || rate.Cmp(low) >= 0 && rate.Cmp(high) <= 0
}

// unhealthyOf is when config lets the Node be not Ready; nil if it does not, so that a Machine without these fields keeps its
// pod. turnUnhealthyAfter wins over turnUnhealthyPeriodically.
func unhealthyOf(config v1alpha1.HollowNodeConfig, path string) (*hollownode.Unhealthy, error) {
	if !config.TurnUnhealthyAfter && !config.TurnUnhealthyPeriodically {
		const remedy = "has no effect: set turnUnhealthyAfter or turnUnhealthyPeriodically to true, or remove it"
		switch {
		case config.HealthyDuration != nil:
			return nil, driver.Invalid(path+".healthyDuration", remedy)
		case config.UnhealthyDuration != nil:
			return nil, driver.Invalid(path+".unhealthyDuration", remedy)
		}
		return nil, nil
	}
	if config.HealthyDuration == nil {
		return nil, driver.Invalid(path+".healthyDuration", "missing: write how long the Node is Ready before it turns unhealthy, such as 5m")
	}
	unhealthy := &hollownode.Unhealthy{HealthyFor: *config.HealthyDuration}
	if config.TurnUnhealthyAfter {
		return unhealthy, nil
	}
	if config.UnhealthyDuration == nil {
		return nil, driver.Invalid(path+".unhealthyDuration", "missing: write how long the Node is not Ready each time, such as 1m")
	}
	unhealthy.UnhealthyFor = *config.UnhealthyDuration
	return unhealthy, nil
}

func readToggle(target *bool) setter {
	return func(value json.RawMessage, path string) error {
		var set *bool
		if err := readBoolean(&set)(value, path); err != nil {
			return err
		}
		*target = *set
		return nil
	}
}
