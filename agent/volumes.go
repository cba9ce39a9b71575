package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/agent/internal/volume"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// rightsTimeout bounds the question whether the agent may read claims and volumes.
const rightsTimeout = 5 * time.Second

// addVolumes adds what provisions volumes of simulated CSI drivers. Without such drivers the agent does not look at claims and volumes.
func (w *worker) addVolumes(ctx context.Context, c clusters) error {
	if len(w.CSIDrivers) == 0 {
		return nil
	}
	if err := checkVolumeRights(ctx, c.target.GetAPIReader()); err != nil {
		w.Log.Error(err, "Not provisioning volumes")
		return nil
	}
	volumes, err := volume.New(volume.Deps{
		Drivers: w.CSIDrivers, Target: c.target.GetClient(), Reader: c.target.GetAPIReader(), Limiter: w.thawLimiter,
		Recorder: c.target.GetEventRecorder("hollowfleet-agent"),
	})
	if err != nil {
		return err
	}
	if err := addVolumeController(w, c, "claim", volumes.ReconcileClaim, volumes.IsDue); err != nil {
		return err
	}
	return addVolumeController(w, c, "volume", volumes.ReconcileVolume, volumes.IsReleased)
}

// checkVolumeRights returns an error if the agent may not read claims and volumes: caches of them would never be filled, and hold up the
// end of each freeze. An API server that does not answer says nothing of rights.
func checkVolumeRights(ctx context.Context, reader client.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}} {
		if err := reader.List(ctx, list, client.Limit(1)); apierrors.IsForbidden(err) {
			return fmt.Errorf("--csi-drivers: apply config/rbac/agent-csi in the cluster, then restart the agent: %w", err)
		}
	}
	return nil
}

// addVolumeController looks at objects of the target that need something.
func addVolumeController[T any, P interface {
	*T
	client.Object
}](w *worker, c clusters, name string, reconcileObject func(context.Context, reconcile.Request) (reconcile.Result, error), needs func(P) bool) error {
	made, err := controller.New(name, c.hub, controller.Options{
		Reconciler: guardDecisions(w.monitor, reconcile.Func(reconcileObject)), MaxConcurrentReconciles: workers,
		ReconciliationTimeout: reconcileTimeout, NeedLeaderElection: ptr.To(false), RateLimiter: reconciler.Retries(),
		NewQueue: newQueue, LogConstructor: newLogConstructor(c, name, func(log logr.Logger, object klog.ObjectRef) logr.Logger { return log.WithValues("object", object) }),
	})
	if err != nil {
		return fmt.Errorf("making the %s controller: %w", name, err)
	}
	var object P = new(T)
	if err := made.Watch(source.Kind(c.target.GetCache(), object, &handler.TypedEnqueueRequestForObject[P]{}, predicate.NewTypedPredicateFuncs(needs))); err != nil {
		return fmt.Errorf("watching for the %s controller: %w", name, err)
	}
	return nil
}
