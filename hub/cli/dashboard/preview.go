package dashboard

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

const (
	// quickPreview and slowPreview bound how often the previews of a fleet are made, and longestPreview how long one may take.
	quickPreview, slowPreview, longestPreview = time.Second, 10 * time.Second, 10 * time.Second
)

// fleetPreviews keeps the previews of fleets that are looked at.
type fleetPreviews struct {
	mu  sync.Mutex
	all map[string]*fleetPreview
}

// fleetPreview is what the hub would do next with a fleet.
type fleetPreview struct {
	mu       sync.Mutex
	at       time.Time
	version  string
	preview  *rollout.Preview
	departed []rollout.Departed
	record   *rollout.Rollout
	err      error
}

// previewOf is the preview of a fleet, which is made again if something has changed.
func (p *fleetPreviews) previewOf(ctx context.Context, s *store, fleet *v1alpha1.MachineFleet, now time.Time) *fleetPreview {
	p.mu.Lock()
	if p.all == nil || len(p.all) > mostFleets {
		p.all = map[string]*fleetPreview{}
	}
	kept := p.all[fleet.Name]
	if kept == nil {
		kept = &fleetPreview{}
		p.all[fleet.Name] = kept
	}
	p.mu.Unlock()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	version := fleet.ResourceVersion + "/" + s.versionOf(health.Cluster, health.MachineDeployment, health.FleetApproval)
	if age := now.Sub(kept.at); age >= 0 && (age < quickPreview || age < slowPreview && version == kept.version) {
		return &fleetPreview{preview: kept.preview, departed: kept.departed, record: kept.record, err: kept.err}
	}
	kept.at, kept.version = now, version
	kept.preview, kept.departed, kept.record, kept.err = readPreview(ctx, s, fleet, now)
	return &fleetPreview{preview: kept.preview, departed: kept.departed, record: kept.record, err: kept.err}
}

func readPreview(ctx context.Context, s *store, fleet *v1alpha1.MachineFleet, now time.Time) (*rollout.Preview, []rollout.Departed, *rollout.Rollout, error) {
	// A page that is closed leaves others that wait for the same preview.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestPreview)
	defer cancel()
	from := s.newReader()
	preview, err := rollout.NewPreview(ctx, from, fleet, now)
	if err != nil {
		return nil, nil, nil, err
	}
	departed, err := preview.Departed(ctx, from)
	if err != nil {
		return nil, nil, nil, err
	}
	rollouts, err := rollout.Rollouts(ctx, from, fleet)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, nil, nil, err
	}
	if len(rollouts) == 0 {
		return preview, departed, nil, nil
	}
	return preview, departed, &rollouts[len(rollouts)-1], nil
}
