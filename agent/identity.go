package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/clusterstatus"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/hubidentity"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
)

// leaveTimeout bounds the agent's last word to the hub.
const leaveTimeout = 3 * time.Second

// claimIdentity takes the credential directory, for which it waits, and gives this process its identity, which no other process has.
//
// With a directory, predecessors are the processes that had it before: the process that holds the directory's lock knows
// that they are no more, and continues with their Lease at once. Without one a killed agent's successor waits until the
// Lease has expired.
func (b *bootstrap) claimIdentity(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the host's name: %w", err)
	}
	var predecessors []string
	identity := host + "_" + uuid.NewString()
	if b.dir == nil {
		b.lease.Identify(identity, nil)
		return nil
	}
	err = poll.Until(ctx, b.clock, joinInterval, func(context.Context) (claimed bool, err error) {
		predecessors, b.release, err = b.dir.Claim(identity)
		if !errors.Is(err, clientcert.ErrInUse) {
			return err == nil, err
		}
		if b.lease.StandBy(fmt.Sprintf("another agent process uses %s; this one stands by until it ends", b.dir)) {
			b.monitor.Notify()
		}
		return false, nil
	})
	if err == nil {
		b.lease.Identify(identity, predecessors)
	}
	return err
}

// representCluster gives the agent its identity and credential, and reports for the cluster.
func (b *bootstrap) representCluster(ctx context.Context) error {
	if err := b.claimIdentity(ctx); err != nil {
		return err
	}
	following := make(chan error, 1)
	go func() { following <- b.credential.follow(ctx) }()
	if err := b.reporter.Start(ctx); err != nil {
		return err
	}
	return <-following
}

// newReporter makes what reports for the cluster, and renews its Lease.
func (b *bootstrap) newReporter() (*clusterstatus.Reporter, error) {
	return clusterstatus.New(clusterstatus.Deps{
		Client: b.hubDirect.Ungated(clients.Reports(b.ClusterName)), Last: clusterstatus.ReportableCluster{ClusterCache: b.hubProbe, Denied: b.denial.Blocked}, Facts: b.facts,
		Freeze: b.monitor, Changes: b.monitor.Subscribe(), HubIdentity: b.hubIdentity, Lease: b.lease, AgentVersion: b.Version, SimulatedClusters: b.hostsSimulated(),
		Runtime: b.pollRuntime("clusterstatus"),
	})
}

// giveUpLease gives up what makes others wait for this agent. It keeps the Lease when the agent failed: something of it
// may still be acting, so another one has to wait until the Lease expires.
func (b *bootstrap) giveUpLease(ctx context.Context, failed error) {
	if b.lease.IsIdentified() && failed == nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if err := b.reporter.Release(last); err != nil {
			b.Log.Info("Releasing the Lease failed; another agent must wait until it expires", "error", err)
		}
		if err := b.hubIdentity.Release(last); err != nil {
			b.Log.Info("Storing the last renewal of the Lease failed", "error", err)
		}
	}
	if b.release == nil {
		return
	}
	if errors.Is(failed, clusterstatus.ErrLeaseLost) {
		// The one that has the Lease may have come from a copy of this agent.
		if err := b.dir.Disown(); err != nil {
			b.Log.Error(err, "Forgetting the identity of an agent that has lost the Lease failed")
		}
	}
	b.release()
}

// checkIdentity makes sure that the hub knows a ready kubeconfig's user as this cluster's agent. A credential that the agent
// has got by joining is its own.
func (b *bootstrap) checkIdentity(ctx context.Context) error {
	if b.HubKubeconfig == "" {
		return nil
	}
	if err := b.identifyAgent(ctx, b.hubDirect); err != nil {
		return fmt.Errorf("--hub-kubeconfig: %w", err)
	}
	return nil
}

// acceptIdentity is checkIdentity for a kubeconfig that is exchanged while the agent runs.
func (b *bootstrap) acceptIdentity(ctx context.Context, config *rest.Config) error {
	own := rest.CopyConfig(config)
	own.UserAgent = b.userAgent()
	hub, err := clients.NewDirect(own)
	if err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	return b.identifyAgent(ctx, hub)
}

// identifyAgent asks the hub who this agent is there, until it answers or has refused often enough to mean it, and fails if
// that is not this cluster's agent: no rule of the hub would bind an administrator or another cluster's agent to this one
// cluster.
func (b *bootstrap) identifyAgent(ctx context.Context, direct *clients.Direct) error {
	hub := direct.Ungated(clients.Identity())
	refusals, said := 0, freeze.OK
	return poll.Until(ctx, b.clock, joinInterval, func(ctx context.Context) (identified bool, err error) {
		review := &authenticationv1.SelfSubjectReview{}
		bounded, cancel := context.WithTimeout(ctx, longestTimeout)
		err = hub.Create(bounded, review)
		cancel()
		if apierrors.IsForbidden(err) {
			refusals++
		} else {
			refusals = 0
		}
		switch {
		case err == nil:
			return true, clientcert.CheckIdentity(b.ClusterName, review.Status.UserInfo)
		case refusals == hubidentity.RefusalsToDeny:
			// Every identity may ask unless an administrator has taken that right away; RBAC decides then alone.
			b.Log.Info("Continuing without knowing who this agent is on the hub", "Cluster", b.ClusterName, "why", err.Error())
			return true, nil
		}
		if outcome := freeze.Classify(err); outcome != said {
			b.Log.Info("Waiting to know who this agent is on the hub", "Cluster", b.ClusterName, "outcome", outcome, "why", clients.Diagnose(err).Error())
			said = outcome
		}
		return false, nil
	})
}
