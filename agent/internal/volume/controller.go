// Package volume makes and deletes PersistentVolumes of the simulated CSI drivers of hollow nodes, for the claims of StorageClasses that name
// one of them as provisioner. Which drivers those are is an option of the agent, and no object of the hub can widen it.
//
// A volume is nothing but its object. It is deleted only if the agent has made it, its claim is gone, and its policy is Delete, all of it as
// the API server has it now; nothing is made or deleted while the agent is frozen.
package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const (
	// frozenRecheck is how soon an object is looked at again that met the freeze.
	frozenRecheck = 15 * time.Second
	// reasonFailed is that of the event about a claim without a volume.
	reasonFailed, actionProvision = "ProvisioningFailed", "Provision"
)

// Deps are what the controllers work with. All are required.
type Deps struct {
	// Drivers are the names of the CSI drivers.
	Drivers []string
	// Target reads claims and volumes from the cache; its writes are refused while frozen. Reader reads from the target's API server.
	Target client.Client
	Reader client.Reader
	// Limiter limits deletions after a thaw.
	Limiter  Limiter
	Recorder events.EventRecorder
}

// Limiter is a freeze.ThawLimiter.
type Limiter interface {
	Take(object types.UID) (wait, waited time.Duration)
}

// Controller provisions and deletes volumes.
type Controller struct{ Deps }

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if len(deps.Drivers) == 0 || deps.Target == nil || deps.Reader == nil || deps.Limiter == nil || deps.Recorder == nil {
		return nil, errors.New("volume.Deps: Drivers, Target, Reader, Limiter and Recorder are required")
	}
	return &Controller{Deps: deps}, nil
}

// IsDue reports whether a claim needs a volume of one of the drivers.
func (c *Controller) IsDue(claim *corev1.PersistentVolumeClaim) bool { return isDue(claim, c.Drivers) }

// IsReleased reports whether a volume may be deleted.
func (c *Controller) IsReleased(volume *corev1.PersistentVolume) bool {
	return isReleased(volume, c.Drivers)
}

// ReconcileClaim makes the volume of a claim.
func (c *Controller) ReconcileClaim(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	observed, err := c.observe(ctx, request.NamespacedName)
	if err != nil || observed.claim == nil {
		return reconcile.Result{}, err
	}
	return settle(c.act(ctx, observed, decide(observed, c.Drivers)))
}

// observe reads what a volume is made from.
func (c *Controller) observe(ctx context.Context, key client.ObjectKey) (facts, error) {
	var f facts
	claim := &corev1.PersistentVolumeClaim{}
	if found, err := c.find(ctx, key, claim); !found || err != nil {
		return f, err
	}
	f.claim = claim
	if !isDue(claim, c.Drivers) {
		return f, nil
	}
	class, driver := &storagev1.StorageClass{}, &storagev1.CSIDriver{}
	if claim.Spec.StorageClassName != nil {
		if found, err := c.find(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, class); err != nil {
			return f, err
		} else if found {
			f.class = class
		}
	}
	if found, err := c.find(ctx, client.ObjectKey{Name: claim.Annotations[provisionerAnnotation]}, driver); err != nil {
		return f, err
	} else if found {
		f.driver = driver
	}
	return f, c.observeNode(ctx, &f, claim.Annotations[selectedNodeAnnotation])
}

func (c *Controller) observeNode(ctx context.Context, f *facts, name string) error {
	if name == "" {
		return nil
	}
	node, csiNode := &corev1.Node{}, &storagev1.CSINode{}
	if found, err := c.find(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	} else if found {
		f.node = node
	}
	found, err := c.find(ctx, client.ObjectKey{Name: name}, csiNode)
	if found {
		f.csiNode = csiNode
	}
	return err
}

// find reads an object from the API server, and reports whether it is there.
func (c *Controller) find(ctx context.Context, key client.ObjectKey, object client.Object) (bool, error) {
	err := c.Reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("getting %T %s: %w", object, key, err)
	}
	return true, nil
}

func (c *Controller) act(ctx context.Context, f facts, decided plan) error {
	switch {
	case decided.problem != "":
		reconciler.WarningEvent(reasonFailed, actionProvision, decided.problem).Send(c.Recorder, f.claim)
		return nil
	case decided.reschedule != "":
		reconciler.WarningEvent(reasonFailed, actionProvision, decided.reschedule+": the scheduler selects another Node").Send(c.Recorder, f.claim)
		changed := f.claim.DeepCopy()
		delete(changed.Annotations, selectedNodeAnnotation)
		return c.Target.Patch(ctx, changed, reconciler.MergeFromWithLock(f.claim))
	case decided.volume == nil:
		return nil
	}
	if decided.makeDriver {
		if err := c.makeDriver(ctx, decided.volume.Spec.CSI.Driver); err != nil {
			return err
		}
	}
	if err := c.Target.Create(ctx, decided.volume); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the volume: %w", err)
	}
	klog.FromContext(ctx).Info("Provisioned a volume", "PersistentVolumeClaim", klog.KObj(f.claim), "PersistentVolume", klog.KObj(decided.volume))
	return nil
}

// makeDriver says to all kubelets that nothing attaches the volumes.
func (c *Controller) makeDriver(ctx context.Context, name string) error {
	no := false
	err := c.Target.Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the CSIDriver: %w", err)
	}
	return nil
}

// ReconcileVolume deletes a volume whose claim is gone.
func (c *Controller) ReconcileVolume(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	volume := &corev1.PersistentVolume{}
	if found, err := c.find(ctx, request.NamespacedName, volume); err != nil || !found || !c.IsReleased(volume) {
		return reconcile.Result{}, err
	}
	claim, owner := &corev1.PersistentVolumeClaim{}, volume.Spec.ClaimRef
	found, err := c.find(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, claim)
	if err != nil || found && claim.UID == owner.UID {
		return reconcile.Result{}, err
	}
	if wait, _ := c.Limiter.Take(volume.UID); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	// Not one that has changed since, or another one of that name.
	err = c.Target.Delete(ctx, volume, client.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion})
	if err == nil {
		klog.FromContext(ctx).Info("Deleted a released volume", "PersistentVolume", klog.KObj(volume))
	}
	return settle(client.IgnoreNotFound(err))
}

// settle says what follows an error: one that the freeze has caused is no failure.
func settle(err error) (reconcile.Result, error) {
	var frozen *freeze.Error
	if errors.As(err, &frozen) {
		return reconcile.Result{RequeueAfter: frozenRecheck}, nil
	}
	return reconcile.Result{}, err
}
