package simulatedcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// isCreated reports whether the hub has made the Cluster for the SimulatedCluster as it is now.
func (s *scope) isCreated() bool {
	created := meta.FindStatusCondition(s.one.Status.Conditions, v1alpha1.ClusterCreatedCondition)
	return created != nil && created.Status == metav1.ConditionTrue && created.ObservedGeneration == s.one.Generation
}

// isAnothers reports whether the driver has a cluster of that name for another SimulatedCluster.
func (s *scope) isAnothers() bool { return s.found != nil && s.found.UID != string(s.one.UID) }

// ensureCluster makes the simulated cluster, or brings it up to date.
func (c *Controller) ensureCluster(ctx context.Context, s *scope) error {
	s.sayObserved(c.Clock.Now())
	if s.silent != nil || s.isAnothers() {
		return nil //nolint:nilerr // The condition says it.
	}
	if !s.isCreated() {
		s.sayPending("The hub has not created the Cluster for the current spec yet")
		return nil
	}
	if s.frozen != nil {
		s.sayPending("It is started when nothing is frozen: " + s.frozen.Error())
		return nil //nolint:nilerr // The condition says it.
	}
	if refused := s.versionError(); refused != nil {
		s.sayRefused(refused)
		return nil
	}
	next, refused := s.nextStep(s.isHealthy(c.Clock.Now()))
	if refused != nil {
		s.sayRefused(refused)
		return nil
	}
	s.unsettled = s.said.Status != metav1.ConditionTrue
	// Before anything is made, so that nothing is left when the SimulatedCluster is deleted.
	if err := c.addFinalizer(ctx, s); err != nil {
		return err
	}
	return c.ensureWithDriver(ctx, s, next)
}

// isHealthy reports whether the control plane has just said that it is ready, and its other components have its version.
func (s *scope) isHealthy(now time.Time) bool {
	runs, known := s.runningMinor()
	return known && s.found.Phase == clusterdriver.Running && isFresh(s.found, now) && s.areComponentsAt(runs)
}

// versionError refuses a version that the driver says it does not have, before a credential is asked for.
func (s *scope) versionError() *clusterdriver.RefusedError {
	want := s.one.Spec.Versions.ControlPlane
	if want == "" || len(s.versions) == 0 || slices.ContainsFunc(s.versions, func(version string) bool { return sameVersion(version, want) }) {
		return nil
	}
	return &clusterdriver.RefusedError{Refusal: clusterdriver.VersionNotSupported, Versions: s.versions}
}

// sameVersion compares two versions by what both of them have: v1.36 and v1.36.2 are the same.
func sameVersion(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

func (c *Controller) addFinalizer(ctx context.Context, s *scope) error {
	before := s.one.DeepCopy()
	if !controllerutil.AddFinalizer(s.one, v1alpha1.SimulatedClusterFinalizer) {
		return nil
	}
	if err := c.Hub.Patch(ctx, s.one, reconciler.MergeFromWithLock(before)); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	s.before = s.one.DeepCopy()
	return nil
}

// ensureWithDriver asks the driver for the simulated cluster, if that is not what it was last asked for.
func (c *Controller) ensureWithDriver(ctx context.Context, s *scope, next step) error {
	access, err := c.Access()
	if err != nil {
		return fmt.Errorf("finding out where the hub is: %w", err)
	}
	desired := clusterdriver.Desired{
		Name: s.one.Name, UID: string(s.one.UID), ControlPlaneVersion: next.version, Hub: access,
		Resources: corev1.ResourceRequirements{Requests: s.one.Spec.Resources.Requests, Limits: s.one.Spec.Resources.Limits},
	}
	if needed, err := c.getCredential(ctx, s, &desired); needed && desired.Credential == nil {
		return err
	}
	s.waiting = next.waiting
	// Other resources may be what makes it healthy: they do not wait for a version.
	if next.hold && desired.Credential == nil && equality.Semantic.DeepEqual(s.memory.ensured.Resources, desired.Resources) {
		s.memory.generation = s.one.Generation
		s.sayObserved(c.Clock.Now())
		return nil
	}
	if s.found != nil && desired.Credential == nil && s.memory.generation == s.one.Generation && sameDesired(s.memory.ensured, desired) {
		s.sayObserved(c.Clock.Now())
		return nil
	}
	err = c.Driver.Ensure(ctx, desired)
	if refused := (*clusterdriver.RefusedError)(nil); errors.As(err, &refused) {
		if s.sayRefused(refused); next.hold {
			s.sayObserved(c.Clock.Now()) // It was asked for a later version, by an agent that has ended, and is on its way.
		}
		return nil
	}
	if err != nil {
		s.sayCondition(metav1.ConditionUnknown, v1alpha1.ReasonDriverUnreachable, "The host could not be asked for it: "+err.Error())
		return err
	}
	desired.Credential = nil
	s.memory.ensured, s.memory.generation = desired, s.one.Generation
	if s.found == nil {
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonStarting, "The host has been asked for it")
	} else {
		s.sayObserved(c.Clock.Now())
	}
	return nil
}

func sameDesired(a, b clusterdriver.Desired) bool {
	return a.UID == b.UID && a.ControlPlaneVersion == b.ControlPlaneVersion && a.Hub.Server == b.Hub.Server && bytes.Equal(a.Hub.CA, b.Hub.CA) &&
		equality.Semantic.DeepEqual(a.Resources, b.Resources)
}

// getCredential puts a credential into desired if the cluster's agent has none that is good. needed without one says that it is to come.
func (c *Controller) getCredential(ctx context.Context, s *scope, desired *clusterdriver.Desired) (needed bool, err error) {
	now := c.Clock.Now()
	if s.found != nil && now.Before(s.found.CredentialExpires) {
		s.memory.credential = nil
		return false, nil
	}
	if held := s.memory.credential; held != nil && !now.Before(held.NotAfter) {
		s.memory.credential = nil
	}
	if s.memory.credential == nil {
		credential, waiting, err := s.memory.request.Advance(ctx, c.Hub.Live, c.Hub)
		if credential == nil {
			s.unsettled = true
			s.sayAwaitingCredential(waiting, err)
			return true, err
		}
		s.memory.credential = credential
	}
	desired.Credential = &clusterdriver.Credential{Certificate: s.memory.credential.Certificate, Key: s.memory.credential.Key}
	return true, nil
}

// sayAwaitingCredential tells what the credential waits for. A control plane that runs is ready all the same.
func (s *scope) sayAwaitingCredential(waiting string, err error) {
	if s.found != nil {
		return
	}
	if err != nil {
		waiting = err.Error()
	}
	s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonAwaitingCredential, "Its agent has no credential for the hub yet: "+waiting)
}

// removeCluster removes the simulated cluster, once the hub says that its Machines are gone, and then the finalizer.
func (c *Controller) removeCluster(ctx context.Context, s *scope) error {
	if !controllerutil.ContainsFinalizer(s.one, v1alpha1.SimulatedClusterFinalizer) ||
		!meta.IsStatusConditionTrue(s.one.Status.Conditions, v1alpha1.MachinesRemovedCondition) {
		return nil
	}
	s.unsettled = true
	if s.frozen != nil {
		s.sayCondition(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingThaw, "It is removed when nothing is frozen: "+s.frozen.Error())
		return nil //nolint:nilerr // The condition says it.
	}
	gone, err := c.Driver.Remove(ctx, s.one.Name, string(s.one.UID))
	if err != nil {
		s.sayCondition(metav1.ConditionUnknown, v1alpha1.ReasonDeleting, "The host could not be asked to remove it: "+err.Error())
		return err
	}
	if !gone {
		message := "It is being removed"
		if s.found != nil && s.found.Message != "" && !s.isAnothers() {
			message += ": " + s.found.Message
		}
		s.sayCondition(metav1.ConditionFalse, v1alpha1.ReasonDeleting, message)
		return nil
	}
	if err := s.memory.request.Withdraw(ctx, c.Hub.Live, c.Hub); err != nil {
		return err
	}
	s.said, s.unsettled = metav1.Condition{}, false
	before := s.one.DeepCopy()
	controllerutil.RemoveFinalizer(s.one, v1alpha1.SimulatedClusterFinalizer)
	if err := c.Hub.Patch(ctx, s.one, reconciler.MergeFromWithLock(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// isFresh reports whether an API server has said just now that it is ready.
func isFresh(found *clusterdriver.Observed, now time.Time) bool {
	return !found.Checked.IsZero() && now.Sub(found.Checked) <= freshness
}
