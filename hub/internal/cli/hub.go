package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const unknown = "unknown"

// hubState is what the Lease of the hub says of it.
type hubState struct {
	version, holder string
	// renewed is how long ago the Lease was renewed.
	renewed time.Duration
	// problem says why the hub does not work; empty if it does.
	problem string
}

// hubOf reads the Lease that the working hub renews.
func hubOf(ctx context.Context, c client.Client, now time.Time) (hubState, error) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.HubNamespace, Name: v1alpha1.HubLeaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return hubState{}, fmt.Errorf("reading the Lease of the hub: %w", err)
	}
	if apierrors.IsNotFound(err) {
		return hubState{version: unknown, problem: "no hub has ever held a Lease here: start one"}, nil
	}
	return stateOf(lease, now), nil
}

// stateOf allows for twice the duration of the Lease: the clocks of hub and user may differ.
func stateOf(lease *coordinationv1.Lease, now time.Time) hubState {
	state := hubState{holder: ptr.Deref(lease.Spec.HolderIdentity, ""), version: unknown}
	if version := lease.Labels[v1alpha1.VersionLabel]; version != "" {
		state.version = strings.ReplaceAll(version, "_", "+")
	}
	if state.holder == "" || lease.Spec.RenewTime == nil {
		state.problem = "no hub holds the Lease: the last one has stopped"
		return state
	}
	state.renewed = max(now.Sub(lease.Spec.RenewTime.Time), 0)
	if grace := 2 * time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second; state.renewed > grace {
		state.problem = fmt.Sprintf("the hub %s has not renewed its Lease for %s", state.holder, state.renewed.Round(time.Second))
	}
	return state
}
