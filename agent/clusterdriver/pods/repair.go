package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
)

// Repair brings what was asked for since the start back to what it is to be, and renews certificates: the objects of a cluster may have
// been changed, and no request comes again. It does not make a cluster again whose namespace is gone. A cluster that fails stops no other one.
func (d *Driver) Repair(ctx context.Context) error {
	d.mu.Lock()
	all := slices.Collect(maps.Values(d.ensured))
	d.mu.Unlock()
	var problems []error
	for _, desired := range all {
		if err := d.repairCluster(ctx, desired); err != nil {
			problems = append(problems, fmt.Errorf("simulated cluster %s: %w", desired.Name, err))
		}
	}
	return errors.Join(problems...)
}

// RepairRequests receives when List has found something missing that Repair makes again.
func (d *Driver) RepairRequests() <-chan struct{} { return d.requests }

// requestRepair asks for a repair, unless one has been asked for just now: it may not succeed.
func (d *Driver) requestRepair(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.requestedAt) < judgedFor {
		return
	}
	d.requestedAt = now
	select {
	case d.requests <- struct{}{}:
	default: // It has been asked for already.
	}
}

// repairCluster does it for one, unless its removal has been asked for in between.
func (d *Driver) repairCluster(ctx context.Context, desired clusterdriver.Desired) error {
	unlock := d.turns.lockName(desired.Name)
	defer unlock()
	d.mu.Lock()
	current, is := d.ensured[desired.UID]
	d.mu.Unlock()
	if !is {
		return nil
	}
	return d.ensureObjects(ctx, current, false)
}
