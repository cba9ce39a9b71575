package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Defaults of Options.
const (
	DefaultNamespace       = "hollowfleet"
	DefaultHollowNodeImage = "hollowfleet/hollow-node"
	DefaultFreezeAfter     = 30 * time.Second
	DefaultThawSuccesses   = 3
	DefaultHealthAddress   = ":8081"
	DefaultMetricsAddress  = ":8080"

	// probesPerFreeze is how many probes of a healthy API server fall into the time after which it freezes.
	probesPerFreeze = 6
	longestTimeout  = 5 * time.Second
	// fastProbe is the interval between probes of an API server that is not proven healthy.
	fastProbe = time.Second
)

// Options of an agent.
type Options struct {
	// ClusterName is the agent's Cluster on the hub. Required.
	ClusterName string
	// HubKubeconfig, TargetKubeconfig and HostKubeconfig are paths. An empty one means the cluster that the
	// agent runs in; HostKubeconfig defaults to TargetKubeconfig. HubKubeconfig is required.
	HubKubeconfig, TargetKubeconfig, HostKubeconfig string
	// TargetNamespace has the ServiceAccount hollow-node-bootstrap in the target cluster; HostNamespace has
	// the pods in the host cluster. Default "hollowfleet".
	TargetNamespace, HostNamespace string
	// HollowNodeImage is the image of hollow-node pods. Default "hollowfleet/hollow-node".
	HollowNodeImage string
	// TargetServerURL is the target's API server as hollow-node pods reach it. Default: that of the kubeconfig.
	TargetServerURL string
	// FreezeAfter is how long an API server may go without a good answer. Default 30s.
	FreezeAfter time.Duration
	// HealthAddress, MetricsAddress and PprofAddress are host:port; empty means none.
	HealthAddress, MetricsAddress, PprofAddress string
	// Drivers are providers beside the built-in "hollow", by name.
	Drivers map[string]driver.Factory
	// Version of the agent. Default "dev".
	Version string
	// Log is for operators.
	Log logr.Logger
}

// withDefaults fills o in and reports every option that cannot be used.
func (o Options) withDefaults() (Options, error) {
	var problems []error
	if message := validation.IsDNS1123Label(o.ClusterName); len(message) > 0 {
		problems = append(problems, fmt.Errorf("--cluster-name: %q: %s", o.ClusterName, message[0]))
	}
	if o.HubKubeconfig == "" {
		problems = append(problems, errors.New("--hub-kubeconfig: required"))
	}
	if o.HostKubeconfig == "" {
		o.HostKubeconfig = o.TargetKubeconfig
	}
	defaultTo(&o.TargetNamespace, DefaultNamespace)
	defaultTo(&o.HostNamespace, DefaultNamespace)
	defaultTo(&o.HollowNodeImage, DefaultHollowNodeImage)
	defaultTo(&o.Version, "dev")
	for flag, namespace := range map[string]string{"--target-namespace": o.TargetNamespace, "--host-namespace": o.HostNamespace} {
		if message := validation.IsDNS1123Label(namespace); len(message) > 0 {
			problems = append(problems, fmt.Errorf("%s: %q: %s", flag, namespace, message[0]))
		}
	}
	if o.FreezeAfter == 0 {
		o.FreezeAfter = DefaultFreezeAfter
	}
	if o.FreezeAfter < time.Second {
		problems = append(problems, fmt.Errorf("--freeze-after: want at least 1s, got %s", o.FreezeAfter))
	}
	if _, taken := o.Drivers[v1alpha1.ProviderHollow]; taken {
		problems = append(problems, errors.New(`provider "hollow" is built in and cannot be replaced`))
	}
	return o, errors.Join(problems...)
}

func defaultTo(target *string, value string) {
	if *target == "" {
		*target = value
	}
}

func (o Options) probeInterval() time.Duration { return o.FreezeAfter / probesPerFreeze }

func (o Options) probeTimeout() time.Duration { return min(longestTimeout, o.FreezeAfter/2) }
