package agent

import (
	"net/http"

	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/disruption"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// addDisruptions adds what carries NodeDisruptionRuns out.
func (a *agent) addDisruptions(c clusters, target kubernetes.Interface) error {
	disruptions, err := disruption.New(disruption.Deps{
		Namespace: a.hubNamespace(), Runs: c.hub.GetAPIReader(), Hub: c.hub.GetClient(), Nodes: c.target.GetClient(),
		Host: c.host.GetClient(), HostNamespace: a.HostNamespace, Target: target,
		Freeze: a.monitor, Clock: a.clock, Log: a.Log.WithName("disruption"),
	})
	if err != nil {
		return err
	}
	return c.hub.Add(disruptions)
}

// addLoadTests adds what carries LoadTestRuns out.
func (a *agent) addLoadTests(c clusters, target kubernetes.Interface) error {
	metadata, err := clients.NewMetadata(c.hub.GetConfig(), c.hub.GetHTTPClient())
	if err != nil {
		return err
	}
	tests, err := loadtest.New(loadtest.Deps{
		Namespace: a.hubNamespace(), Runs: c.hub.GetAPIReader(), Hub: c.hub.GetClient(), Target: target,
		Watch: metadata.Resource(v1alpha1.GroupVersion.WithResource("loadtestruns")).Namespace(a.hubNamespace()).Watch,
		Load: func(observe func(http.RoundTripper) http.RoundTripper) (*clients.Load, error) {
			return clients.NewLoad(a.target, a.gate.RoundTripper, observe)
		},
		NodeInformers: c.target.GetCache(), Host: c.host.GetClient(), HostNamespace: a.HostNamespace,
		Limits: a.LoadTests.limits(),
		Freeze: a.monitor, Clock: a.clock, Log: a.Log.WithName("loadtest"),
	})
	if err != nil {
		return err
	}
	return c.hub.Add(tests)
}
