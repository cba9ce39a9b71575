package agent

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/agent/internal/connect"
	"github.com/hollowfleet/hollowfleet/agent/internal/credential"
	"github.com/hollowfleet/hollowfleet/agent/internal/denial"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
)

// checkIdentity asks the hub who this agent is there, until it answers or has refused often enough to mean it, and fails if
// that is not this cluster's agent: no rule of the hub would bind an administrator or another cluster's agent to this one
// cluster. A credential that the agent has got by joining is its own.
func (a *agent) checkIdentity(ctx context.Context) error {
	if a.HubKubeconfig == "" {
		return nil
	}
	hub := a.hubDirect.Ungated(connect.Identity())
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
			if err := credential.CheckIdentity(a.ClusterName, review.Status.UserInfo); err != nil {
				return fmt.Errorf("--hub-kubeconfig: %w", err)
			}
			return nil
		case refusals == denial.Enough:
			// Every identity may ask unless somebody has taken that right away; RBAC decides then alone.
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
