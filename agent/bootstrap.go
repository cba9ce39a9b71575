package agent

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/clusterstatus"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/hubidentity"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// kubeconfigs are the clusters that the agent works with; that of the hub follows the credential.
type kubeconfigs struct{ hub, target, host *rest.Config }

// bootstrap makes this process the agent of its cluster: it has the identity, the credential and the Lease, and knows what keeps the
// agent from acting.
type bootstrap struct {
	*environment
	kubeconfigs
	credential  hubCredential
	hubDirect   *clients.Direct
	hubProbe    *clients.HubProbe
	targetProbe *clients.TargetProbe
	// dir is the credential directory, if there is one, and release ends our claim to it.
	dir     *clientcert.Dir
	release func()
	// denial knows whether the hub refuses this agent, skew whether its version keeps the agent from working for it, and hubIdentity
	// whether it is the hub that this agent works for.
	denial      *hubidentity.Denial
	skew        *versionSkew
	hubIdentity *hubidentity.Verifier
	lease       *clusterstatus.LeaseHolder
	monitor     *freeze.Monitor
	reporter    *clusterstatus.Reporter
	// facts are what the reporter tells of the cluster.
	facts         *facts
	freezeMetrics *freeze.Metrics
}

// newBootstrap loads the kubeconfigs, and makes what it takes to become this cluster's agent.
func newBootstrap(ctx context.Context, e *environment) (*bootstrap, error) {
	b := &bootstrap{environment: e, lease: clusterstatus.NewLeaseHolder(e.clock), freezeMetrics: freeze.NewMetrics(e.registry)}
	userAgent := b.userAgent()
	if err := b.loadKubeconfigs(userAgent); err != nil {
		return nil, err
	}
	hostDirect, err := b.connectClusters(ctx, userAgent)
	if err != nil {
		return nil, err
	}
	if b.hubIdentity, err = b.newHubIdentity(hostDirect); err != nil {
		return nil, err
	}
	if b.monitor, err = b.newMonitor(hostDirect); err != nil {
		return nil, err
	}
	b.reporter, err = b.newReporter()
	return b, err
}

// connectClusters makes the clients and probes of the API servers. It returns a client of the host's.
func (b *bootstrap) connectClusters(ctx context.Context, userAgent string) (host *clients.Direct, err error) {
	targetDirect, err := clients.NewDirect(b.target)
	if err != nil {
		return nil, fmt.Errorf("connecting to the target: %w", err)
	}
	host = targetDirect
	if b.HostKubeconfig != b.TargetKubeconfig {
		if host, err = clients.NewDirect(b.host); err != nil {
			return nil, fmt.Errorf("connecting to the host: %w", err)
		}
	}
	if err := b.connectHub(ctx, targetDirect, host, userAgent); err != nil {
		return nil, err
	}
	b.hubProbe, b.denial = clients.NewHubProbe(b.hubDirect, b.ClusterName), hubidentity.NewDenial(b.clock)
	b.skew = &versionSkew{own: b.Version, cluster: b.hubProbe.Cluster, clock: b.clock}
	if b.targetProbe, err = clients.NewTargetProbe(targetDirect, b.target, b.clock); err != nil {
		return nil, err
	}
	b.facts = &facts{TargetProbe: b.targetProbe}
	return host, nil
}

// newMonitor makes what knows whether the agent may act.
func (b *bootstrap) newMonitor(host *clients.Direct) (*freeze.Monitor, error) {
	probes := map[freeze.Scope]freeze.Probe{freeze.Hub: b.probeHub, freeze.Target: b.targetProbe.Probe}
	if b.HostKubeconfig != b.TargetKubeconfig {
		probes[freeze.Host] = clients.HostProbe(host, b.HostNamespace)
	}
	return freeze.NewMonitor(freeze.Options{
		Probes:   probes,
		Ordered:  b.hubProbe.Ordered,
		Blockers: []freeze.BlockerFunc{b.denial.Blocked, b.skew.Blocked, b.hubIdentity.Blocked, b.lease.Blocked},
		Relist:   true,
		Policy:   freeze.Policy{After: b.FreezeAfter, Successes: freeze.DefaultSuccesses},
		Pace:     freeze.PaceFor(b.FreezeAfter),
		Runtime:  b.pollRuntime("freeze"), Metrics: b.freezeMetrics,
	})
}

// loadKubeconfigs reads what others have written, and reports everything that is wrong with it.
func (b *bootstrap) loadKubeconfigs(userAgent string) error {
	var problems []error
	var err error
	if b.HubKubeconfig != "" {
		if b.credential, err = b.useReadyKubeconfig(); err != nil {
			problems = append(problems, err)
		}
	}
	for _, kubeconfig := range []struct {
		flag, path string
		into       **rest.Config
	}{
		{"--target-kubeconfig", b.TargetKubeconfig, &b.target},
		{"--host-kubeconfig", b.HostKubeconfig, &b.host},
	} {
		if *kubeconfig.into, err = clients.LoadConfig(kubeconfig.path, userAgent); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", kubeconfig.flag, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return &UsageError{Err: err}
	}
	return nil
}

// newHubIdentity makes what knows the hub. It is stored on the host, by a client that is not gated.
func (b *bootstrap) newHubIdentity(host *clients.Direct) (*hubidentity.Verifier, error) {
	key := hubidentity.StoreKey(b.HostNamespace, b.ClusterName)
	return hubidentity.New(hubidentity.Deps{
		Cluster: b.ClusterName, Store: hubidentity.NewStore(host.Ungated(clients.Keeping("ConfigMap", key)), b.HostNamespace, b.ClusterName),
		Hub: b.hubDirect.Reader, Last: b.hubProbe, Changed: func() { b.monitor.Notify() }, Saw: b.lease.Observe,
		Runtime: b.pollRuntime("hubidentity"), Metrics: hubidentity.NewMetrics(b.registry),
	})
}

// waitUntilJoined returns when the agent has its credential, the hub has accepted the cluster and made its
// namespace, and the agent has the cluster's Lease. It says in the log what it waits for, once for each thing.
//
// An agent that stands by for another one waits here too: its controllers would report on the same Machines.
func (b *bootstrap) waitUntilJoined(ctx context.Context) error {
	return poll.Until(ctx, b.clock, joinInterval, func(context.Context) (joined bool, err error) {
		missing := b.describeMissing()
		if missing != "" && b.doing.Swap(missing) != missing {
			b.Log.Info("Waiting to join", "Cluster", b.ClusterName, "for", missing)
		}
		return missing == "", nil
	})
}

// describeMissing says what the agent has to wait for, empty if nothing.
func (b *bootstrap) describeMissing() string {
	cluster := b.hubProbe.Cluster()
	why, blocked := b.lease.Blocked()
	denied, out := b.denial.Blocked()
	skew, skewed := b.skew.Blocked()
	switch {
	case out:
		return denied.Message
	case skewed:
		return skew.Message
	case blocked && why.Reason == v1alpha1.ReasonAnotherAgent:
		return why.Message
	case b.credential.waiting() != "":
		return b.credential.waiting()
	case clusterstatus.Joined(cluster) && blocked:
		return why.Message
	case clusterstatus.Joined(cluster):
		return ""
	case cluster != nil:
		return fmt.Sprintf("the hub to accept Cluster %q and create its namespace (spec.acceptance is %s)", b.ClusterName, cluster.Spec.Acceptance)
	}
	for _, endpoint := range b.monitor.State().Endpoints {
		if endpoint.Scope == freeze.Hub && endpoint.LastMessage != "" {
			return fmt.Sprintf("the hub to show this agent Cluster %q: %s: %s", b.ClusterName, endpoint.LastOutcome, endpoint.LastMessage)
		}
	}
	return "the hub's first answer"
}
