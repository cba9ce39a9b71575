package localfleet

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// upgradePatience bounds an upgrade of the components of a control plane.
const upgradePatience = 5 * time.Minute

// isUpgradable reports whether a control plane runs in processes of its own, and is to stay there.
func isUpgradable(member Member, record HostedCluster) bool {
	return member.Cluster != nil && runsPlane(member.Cluster) && member.Cluster.Group() == nil && record.Group == ""
}

// upgradePlane gives a control plane that has processes of its own the version of its record, component by component. Data store, podhost
// and nodes continue. One that shares its process with others moves to another group instead, as a whole: a process emulates one minor.
// That starts the API server first, too.
func (h *hosted) upgradePlane(ctx context.Context, member Member, record HostedCluster) error {
	own, err := h.fleet.programVersion()
	if err != nil {
		return err
	}
	minor, err := emulatedMinor(record.ControlPlaneVersion, own)
	if err != nil {
		return err
	}
	version := cmp.Or(record.ControlPlaneVersion, "v"+own.String())
	h.fleet.reportProgress("%s: upgrading its control plane to %s", h.name, version)
	h.setUpgrading("its components are being brought to " + version)
	defer h.setUpgrading("")
	ctx, cancel := context.WithTimeout(ctx, upgradePatience)
	defer cancel()
	if err := member.Cluster.Upgrade(ctx, minor); err != nil {
		return fmt.Errorf("upgrading the control plane of %s to %s: %w", h.name, version, err)
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.startedVersion, h.proof = record.ControlPlaneVersion, proof{}
	return nil
}

func (h *hosted) setUpgrading(what string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.upgrading = what
}
