package agent

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/disruption"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/agent/internal/machinelog"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/agent/internal/simulatedcluster"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func (w *worker) hubOf(c clusters) clients.Hub {
	return clients.Hub{Namespace: w.hubNamespace(), Client: c.hub.GetClient(), Live: c.hub.GetAPIReader()}
}

func (w *worker) hostOf(c clusters) clients.Host {
	return clients.Host{Namespace: w.HostNamespace, Client: c.host.GetClient()}
}

// watchOf watches the metadata of the cluster's objects of a resource on the hub.
func (w *worker) watchOf(c clusters, resource string) (poll.WatchFunc, error) {
	metadata, err := clients.NewMetadata(c.hub.GetConfig(), c.hub.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	return metadata.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(w.hubNamespace()).Watch, nil
}

// newDisruptions makes what carries NodeDisruptionRuns out, and knows what new instances are made with. It also returns the
// client of the target that it shares with drains and checks.
func (w *worker) newDisruptions(c clusters) (kubernetes.Interface, *disruption.Controller, error) {
	target, err := clients.NewGatedClientset(w.target, w.gate.RoundTripper)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the target for drains: %w", err)
	}
	watchRuns, err := w.watchOf(c, "nodedisruptionruns")
	if err != nil {
		return nil, nil, err
	}
	disruptions, err := disruption.New(disruption.Deps{
		Hub: w.hubOf(c), Watch: watchRuns, Nodes: c.target.GetClient(), Host: w.hostOf(c), Target: target,
		Freeze: w.monitor, Runtime: w.pollRuntime("disruption"),
	})
	return target, disruptions, err
}

// addLoadTests adds what carries LoadTestRuns out.
func (w *worker) addLoadTests(c clusters, target kubernetes.Interface) error {
	watchRuns, err := w.watchOf(c, "loadtestruns")
	if err != nil {
		return err
	}
	tests, err := loadtest.New(loadtest.Deps{
		Hub: w.hubOf(c), Watch: watchRuns, Target: target,
		Load: func(observe func(http.RoundTripper) http.RoundTripper) (*clients.Load, error) {
			return clients.NewLoad(w.target, w.gate.RoundTripper, observe)
		},
		NodeInformers: c.target.GetCache(), Host: w.hostOf(c),
		Limits: w.LoadTests.limits(),
		Freeze: w.monitor, Runtime: w.pollRuntime("loadtest"),
	})
	if err != nil {
		return err
	}
	return c.hub.Add(tests)
}

// addMachineLogs adds what reads the logs of Machines for users of the hub.
func (w *worker) addMachineLogs(c clusters) error {
	watchRequests, err := w.watchOf(c, "machinelogrequests")
	if err != nil {
		return err
	}
	host, err := clients.NewGatedClientset(w.host, w.gate.RoundTripper)
	if err != nil {
		return fmt.Errorf("connecting to the host for logs: %w", err)
	}
	logs, err := machinelog.New(machinelog.Deps{
		Hub: w.hubOf(c), Watch: watchRequests, Freeze: w.monitor, Runtime: w.pollRuntime("machinelog"),
		Sources: map[string]machinelog.Source{v1alpha1.ProviderHollow: hollow.Logs{
			Reader: c.host.GetAPIReader(), Client: host, Namespace: w.HostNamespace, Cluster: w.ClusterName,
		}},
	})
	if err != nil {
		return err
	}
	return c.hub.Add(logs)
}

// addSimulatedClusters adds what runs the SimulatedClusters that this cluster hosts, or says that nothing does.
func (w *worker) addSimulatedClusters(c clusters) error {
	watchThem, err := w.watchOf(c, "simulatedclusters")
	if err != nil {
		return err
	}
	runs, err := w.newClusterDriver(c)
	if err != nil {
		return err
	}
	hosted, err := simulatedcluster.New(simulatedcluster.Deps{
		Cluster: w.ClusterName, Hub: w.hubOf(c), Watch: watchThem, Driver: runs, Access: w.hubAccess, Lifetime: w.CertificateLifetime,
		Freeze: w.monitor, Runtime: w.pollRuntime("simulatedcluster"),
	})
	if err != nil {
		return err
	}
	return c.hub.Add(hosted)
}

// hubAccess tells where the hub is now, as this agent gets there.
func (w *worker) hubAccess() (clusterdriver.HubAccess, error) {
	config, _, err := w.credential.Current()
	if err != nil {
		return clusterdriver.HubAccess{}, err
	}
	ca, err := clients.CertificateAuthority(config)
	return clusterdriver.HubAccess{Server: config.Host, CA: ca}, err
}
