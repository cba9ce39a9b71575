package hollownode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync/atomic"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/apis/pods"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/cache"

	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

// tuneKubelet changes what a kubelet offers no option for. The private fields that it reaches into are listed in private.go.
func (n *node) tuneKubelet(k *kubelet.Kubelet) error {
	var probes error
	if n.runsProbes() {
		probes = keepProbes(k)
	}
	return errors.Join(
		probes,
		setField(k, nodeIPValidator, func(net.IP) error { return nil }),
		setField(k, pluginManager, pluginmanager.PluginManager(noPlugins{})),
		paceVolumes(k),
		orderSandboxStatus(k),
		keepHooks(k),
		dropPodsServer(k),
	)
}

// dropPodsServer takes away what would serve an API of pods on a socket, if the feature gate of that API is off.
func dropPodsServer(k *kubelet.Kubelet) error {
	if !minor.KeepsPodsServer || utilfeature.DefaultFeatureGate.Enabled(features.PodsAPI) {
		return nil
	}
	queue, err := getField[chan pods.PodWatchEvent](k, podsServerQueue)
	if err != nil {
		return err
	}
	close(queue)
	return clearField(k, podsServer)
}

// disableLocked turns off a feature that gates refuse to turn off, because a real kubelet must have it.
func disableLocked(gates any, feature featuregate.Feature) error {
	field, err := enabledFeatures.fieldOf(gates)
	if err != nil {
		return fmt.Errorf("turning off the feature %s: %w", feature, err)
	}
	value, ok := field.Addr().Interface().(*atomic.Value)
	if !ok {
		return fmt.Errorf("turning off the feature %s: the set of enabled features is a %s", feature, field.Type())
	}
	enabled, ok := value.Load().(map[featuregate.Feature]bool)
	if !ok {
		return fmt.Errorf("turning off the feature %s: the set of enabled features holds a %T", feature, value.Load())
	}
	changed := maps.Clone(enabled)
	changed[feature] = false
	value.Store(changed)
	return nil
}

// noPlugins stands in for the manager of CSI drivers and device plugins, which do not exist here.
type noPlugins struct{}

func (noPlugins) Run(context.Context, config.SourcesReady, <-chan struct{}) {}
func (noPlugins) AddHandler(string, cache.PluginHandler)                    {}
