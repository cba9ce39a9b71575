package agent

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/hubidentity"
)

// checkIdentity makes sure that the hub knows a ready kubeconfig's user as this cluster's agent. A credential that the agent
// has got by joining is its own.
func (a *agent) checkIdentity(ctx context.Context) error {
	if a.HubKubeconfig == "" {
		return nil
	}
	if err := a.identify(ctx, a.hubDirect); err != nil {
		return fmt.Errorf("--hub-kubeconfig: %w", err)
	}
	return nil
}

// acceptIdentity is checkIdentity for a kubeconfig that is exchanged while the agent runs.
func (a *agent) acceptIdentity(ctx context.Context, config *rest.Config) error {
	own := rest.CopyConfig(config)
	own.UserAgent = a.userAgent()
	hub, err := clients.NewDirect(own)
	if err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	return a.identify(ctx, hub)
}

// identify asks the hub who this agent is there, until it answers or has refused often enough to mean it, and fails if
// that is not this cluster's agent: no rule of the hub would bind an administrator or another cluster's agent to this one
// cluster.
func (a *agent) identify(ctx context.Context, direct *clients.Direct) error {
	hub := direct.Ungated(clients.Identity())
	ticker := a.clock.NewTicker(joinInterval)
	defer ticker.Stop()
	refusals := 0
	for said := freeze.OK; ; {
		review := &authenticationv1.SelfSubjectReview{}
		bounded, cancel := context.WithTimeout(ctx, longestTimeout)
		err := hub.Create(bounded, review)
		cancel()
		if apierrors.IsForbidden(err) {
			refusals++
		} else {
			refusals = 0
		}
		switch {
		case err == nil:
			return clientcert.CheckIdentity(a.ClusterName, review.Status.UserInfo)
		case refusals == hubidentity.RefusalsToDeny:
			// Every identity may ask unless an administrator has taken that right away; RBAC decides then alone.
			a.Log.Info("Going on without knowing who this agent is on the hub", "Cluster", a.ClusterName, "why", err.Error())
			return nil
		}
		if outcome := freeze.Classify(err); outcome != said {
			a.Log.Info("Waiting to know who this agent is on the hub", "Cluster", a.ClusterName, "outcome", outcome, "why", err.Error())
			said = outcome
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}
