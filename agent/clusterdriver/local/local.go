// Package local has simulated clusters run by the keeper of the local fleet that the host belongs to.
package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// Driver is a clusterdriver.Driver.
type Driver struct{ keeper *localclusters.Client }

// New returns the driver of the keeper that serves the socket. It does not connect yet.
func New(socket string) *Driver { return &Driver{keeper: localclusters.NewClient(socket)} }

// Ensure implements clusterdriver.Driver.
func (d *Driver) Ensure(ctx context.Context, desired clusterdriver.Desired) error {
	request := localclusters.Desired{
		UID: desired.UID, ControlPlaneVersion: desired.ControlPlaneVersion,
		Hub: localclusters.HubAccess{Server: desired.Hub.Server, CA: desired.Hub.CA}, Resources: resourcesOf(desired.Resources),
	}
	if desired.Credential != nil {
		request.Certificate, request.Key = desired.Credential.Certificate, desired.Credential.Key
	}
	if err := d.keeper.Ensure(ctx, desired.Name, request); err != nil {
		return fmt.Errorf("asking for simulated cluster %s: %w", desired.Name, translateError(err))
	}
	return nil
}

func resourcesOf(desired corev1.ResourceRequirements) localclusters.Resources {
	text := func(of corev1.ResourceList, name corev1.ResourceName) string {
		quantity, isAsked := of[name]
		if !isAsked {
			return ""
		}
		return quantity.String()
	}
	return localclusters.Resources{
		RequestsCPU: text(desired.Requests, corev1.ResourceCPU), RequestsMemory: text(desired.Requests, corev1.ResourceMemory),
		LimitsCPU: text(desired.Limits, corev1.ResourceCPU), LimitsMemory: text(desired.Limits, corev1.ResourceMemory),
	}
}

// Remove implements clusterdriver.Driver.
func (d *Driver) Remove(ctx context.Context, name, uid string) (gone bool, err error) {
	gone, err = d.keeper.Remove(ctx, name, uid)
	switch {
	case localclusters.ReasonOf(err) == localclusters.NameTaken: // It has another UID, so nothing is left of the one that is asked for.
		return true, nil
	case err != nil:
		return false, fmt.Errorf("removing simulated cluster %s: %w", name, translateError(err))
	}
	return gone, nil
}

// List implements clusterdriver.Driver.
func (d *Driver) List(ctx context.Context) (clusterdriver.Inventory, error) {
	list, err := d.keeper.List(ctx)
	if err != nil {
		return clusterdriver.Inventory{}, fmt.Errorf("listing simulated clusters: %w", translateError(err))
	}
	inventory := clusterdriver.Inventory{Versions: list.Versions}
	for _, one := range list.Clusters {
		inventory.Clusters = append(inventory.Clusters, clusterdriver.Observed{
			Name: one.Name, UID: one.UID, Phase: phaseOf(one.Phase), Message: one.Message, Version: one.Version,
			ControllerManager: one.ControllerManager, Scheduler: one.Scheduler, Checked: timeOf(one.Checked), CredentialExpires: timeOf(one.CredentialExpires),
		})
	}
	return inventory, nil
}

// phases are those of a keeper. One that a later keeper adds is not Running.
var phases = map[localclusters.Phase]clusterdriver.Phase{
	localclusters.Starting: clusterdriver.Starting, localclusters.Running: clusterdriver.Running,
	localclusters.Failed: clusterdriver.Failed, localclusters.Removing: clusterdriver.Removing,
}

func phaseOf(phase localclusters.Phase) clusterdriver.Phase {
	if known, is := phases[phase]; is {
		return known
	}
	return clusterdriver.Starting
}

func timeOf(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}

// refusals are the reasons of a keeper; any other is Invalid.
var refusals = map[localclusters.Reason]clusterdriver.Refusal{
	localclusters.VersionNotSupported: clusterdriver.VersionNotSupported, localclusters.NameTaken: clusterdriver.NameTaken,
	localclusters.NoRoom: clusterdriver.NoRoom, localclusters.BeingRemoved: clusterdriver.BeingRemoved,
	localclusters.Changing: clusterdriver.Changing, localclusters.Downgrade: clusterdriver.Downgrade,
}

// versionField is what a keeper calls spec.versions.controlPlane.
const versionField = "controlPlaneVersion"

// translateError turns a refusal of the keeper into one of the driver. Any other error is that of a keeper which does not answer.
func translateError(err error) error {
	var problem *localclusters.Problem
	if !errors.As(err, &problem) {
		return err
	}
	refusal, known := refusals[problem.Reason]
	if !known {
		refusal = clusterdriver.Invalid
	}
	told := problem.Error()
	if problem.Field == versionField {
		told = "spec.versions.controlPlane: " + problem.Message
	}
	return &clusterdriver.RefusedError{Refusal: refusal, Problem: told, Versions: problem.Versions}
}
