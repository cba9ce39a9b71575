package agent

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/checks"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// facts are what the worker knows of the cluster and the reporter tells the hub. Nothing is known before the worker has its caches.
type facts struct {
	*clients.TargetProbe
	known atomic.Pointer[sources]
}

// sources are where the facts are read.
type sources struct {
	capacity func(context.Context) corev1.ResourceList
	orphans  *machine.OrphanFinder
	checks   *checks.Checker
}

// Target implements clusterstatus.Facts.
func (f *facts) Target() (uid, version string) { return f.Identity() }

// Capacity implements clusterstatus.Facts.
func (f *facts) Capacity(ctx context.Context) corev1.ResourceList {
	if from := f.known.Load(); from != nil {
		return from.capacity(ctx)
	}
	return nil
}

// Orphans implements clusterstatus.Facts.
func (f *facts) Orphans() (*v1alpha1.Orphans, bool) {
	if from := f.known.Load(); from != nil {
		return from.orphans.Orphans()
	}
	return nil, false
}

// Checks implements clusterstatus.Facts.
func (f *facts) Checks() checks.Result {
	if from := f.known.Load(); from != nil {
		return from.checks.Result()
	}
	return checks.Result{}
}
