package simulatedcluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// removalRetry is when a removal looks again for what is gone, should no event tell of it.
const removalRetry = 10 * time.Second

// removeNext takes the next step of a removal: all before it are done, as the API server answers.
func (c *Controller) removeNext(ctx context.Context, s *scope) error {
	for _, step := range []func(context.Context, *scope) (done bool, err error){
		c.removeMachines, c.awaitAgent, c.removeCluster, c.removeNamespace,
	} {
		if done, err := step(ctx, s); err != nil || !done {
			return err
		}
	}
	before := s.one.DeepCopy()
	controllerutil.RemoveFinalizer(s.one, v1alpha1.ClusterFinalizer)
	if err := c.Client.Patch(ctx, s.one, reconciler.MergeFromWithLock(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	s.gone = true
	return nil
}

// waitFor ends a step that is not done yet.
func (s *scope) waitFor(reason, format string, args ...any) (bool, error) {
	s.removing = conditions.Deleting(fmt.Sprintf(format, args...))
	s.removing.Reason = reason
	return false, &outcome.Wait{Reason: reason, Message: s.removing.Message, After: removalRetry}
}

// removedKinds are what is removed from a cluster before its control plane goes, each after the one whose controller would recreate it.
// Their finalizers are its agent's to remove, unless no agent has ever joined: see releaseMachine.
var removedKinds = []struct {
	kind string
	list func() client.ObjectList
}{
	{"MachineDeployment", func() client.ObjectList { return &v1alpha1.MachineDeploymentList{} }},
	{"MachineSet", func() client.ObjectList { return &v1alpha1.MachineSetList{} }},
	{"Machine", func() client.ObjectList { return &v1alpha1.MachineList{} }},
	{"LoadTestRun", func() client.ObjectList { return &v1alpha1.LoadTestRunList{} }},
}

// removeMachines deletes the Machines, and says with a condition when they are gone. Once that is said, it stays: the host's agent may
// have started.
func (c *Controller) removeMachines(ctx context.Context, s *scope) (bool, error) {
	if meta.IsStatusConditionTrue(s.one.Status.Conditions, v1alpha1.MachinesRemovedCondition) {
		return true, nil
	}
	forced := s.one.Labels[v1alpha1.ForceDeletionLabel] == "true"
	switch {
	case s.host == nil && !forced:
		return s.waitFor(v1alpha1.ReasonNoHost, "Cluster %s, which hosts it, no longer exists. If it does not come back: kubectl label simulatedcluster -n %s %s %s=true",
			s.one.Namespace, s.one.Namespace, s.one.Name, v1alpha1.ForceDeletionLabel)
	case s.held.Frozen && (s.host != nil || freeze.OfAnnotation("SimulatedCluster", s.one).Frozen):
		return s.waitFor(v1alpha1.ReasonAwaitingThaw, "Nothing is removed while it or its host is frozen: %s", s.held.Message)
	case !s.owns():
		return c.reportRemoved(s, v1alpha1.ReasonMachinesRemoved, "This SimulatedCluster has no Cluster of its own")
	case forced:
		return c.reportRemoved(s, v1alpha1.ReasonForced, "The label "+v1alpha1.ForceDeletionLabel+" gives its Machines up: they go with its control plane")
	}
	held := freeze.First(freeze.OfCluster(s.cluster.Name, s.cluster.Name, s.cluster), c.Agents.Verdict(s.cluster))
	if s.cluster.DeletionTimestamp == nil && held.Frozen {
		return s.waitFor(v1alpha1.ReasonAwaitingThaw, "Its Machines are removed when it is not frozen: %s. To remove it without them: kubectl label simulatedcluster -n %s %s %s=true",
			held.Message, s.one.Namespace, s.one.Name, v1alpha1.ForceDeletionLabel)
	}
	if err := c.markLeaving(ctx, s); err != nil {
		return false, err
	}
	for _, kind := range removedKinds {
		left, err := c.deleteAll(ctx, s, kind.list())
		if err != nil {
			return false, err
		}
		if left > 0 {
			return s.waitFor(v1alpha1.ReasonDeleting, "%s to be removed first. To remove it without them: kubectl label simulatedcluster -n %s %s %s=true",
				plural.Count(left, kind.kind), s.one.Namespace, s.one.Name, v1alpha1.ForceDeletionLabel)
		}
	}
	return c.reportRemoved(s, v1alpha1.ReasonMachinesRemoved, "")
}

func (c *Controller) reportRemoved(s *scope, reason, message string) (bool, error) {
	conditions.Set(&s.one.Status.Conditions, metav1.Condition{
		Type: v1alpha1.MachinesRemovedCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: s.one.Generation,
	}, c.Clock.Now())
	return true, nil
}

// markLeaving keeps fleets, load tests and disruptions from beginning anything more in the cluster.
func (c *Controller) markLeaving(ctx context.Context, s *scope) error {
	if _, marked := s.cluster.Annotations[v1alpha1.LeavingAnnotation]; marked {
		return nil
	}
	after := s.cluster.DeepCopy()
	after.Annotations[v1alpha1.LeavingAnnotation] = s.one.DeletionTimestamp.UTC().Format(time.RFC3339)
	if err := c.Client.Patch(ctx, after, reconciler.MergeFromWithLock(s.cluster)); err != nil {
		return fmt.Errorf("marking Cluster %s as leaving: %w", after.Name, err)
	}
	s.cluster = after
	return nil
}

// deleteAll deletes all objects of a kind in the namespace of the cluster, and returns how many there are.
func (c *Controller) deleteAll(ctx context.Context, s *scope, list client.ObjectList) (int, error) {
	if err := c.Live.List(ctx, list, client.InNamespace(s.one.Name)); err != nil {
		return 0, fmt.Errorf("listing %T: %w", list, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return 0, fmt.Errorf("reading %T: %w", list, err)
	}
	for _, item := range items {
		object, is := item.(client.Object)
		if !is {
			continue
		}
		if object.GetDeletionTimestamp() == nil {
			uid := object.GetUID()
			if err := c.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
				return 0, fmt.Errorf("deleting %T %s: %w", object, client.ObjectKeyFromObject(object), err)
			}
		}
		if machine, is := object.(*v1alpha1.Machine); is && !meta.IsStatusConditionTrue(s.cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition) {
			if err := c.releaseMachine(ctx, machine); err != nil {
				return 0, err
			}
		}
	}
	return len(items), nil
}

// releaseMachine removes the agent's finalizer from a Machine that is being deleted in a cluster whose agent has never joined, as when the
// host has no room for it: nobody else would, and whatever an agent that joins just now has made is in the control plane that goes next.
func (c *Controller) releaseMachine(ctx context.Context, machine *v1alpha1.Machine) error {
	before := &v1alpha1.Machine{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(machine), before); err != nil {
		return wrapMissing("reading machine "+machine.Name+" again", err)
	}
	after := before.DeepCopy()
	if before.UID != machine.UID || before.DeletionTimestamp == nil || !controllerutil.RemoveFinalizer(after, v1alpha1.MachineFinalizer) {
		return nil
	}
	if err := c.Client.Patch(ctx, after, reconciler.MergeFromWithLock(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing machine %s/%s: %w", machine.Namespace, machine.Name, err)
	}
	return nil
}

// awaitAgent waits until the host's agent has removed agent and control plane. It cannot put its finalizer on what is being deleted, so
// without one there is nothing left of its making.
func (c *Controller) awaitAgent(ctx context.Context, s *scope) (bool, error) {
	live := &v1alpha1.SimulatedCluster{}
	switch err := c.Live.Get(ctx, client.ObjectKeyFromObject(s.one), live); {
	case apierrors.IsNotFound(err):
		s.gone = true
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the simulated cluster again: %w", err)
	}
	if !controllerutil.ContainsFinalizer(live, v1alpha1.SimulatedClusterFinalizer) {
		return live.UID == s.one.UID && live.DeletionTimestamp != nil, nil
	}
	if s.host == nil {
		return s.waitFor(v1alpha1.ReasonNoHost, "Cluster %s, whose agent removes the control plane, no longer exists. If the control plane is gone, remove the finalizer: "+
			"kubectl patch simulatedcluster -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":[%q]}}'", s.one.Namespace, s.one.Namespace, s.one.Name, v1alpha1.ClusterFinalizer)
	}
	if s.held.Frozen {
		return s.waitFor(v1alpha1.ReasonAwaitingThaw, "Its control plane is removed when its host is not frozen: %s", s.held.Message)
	}
	return s.waitFor(v1alpha1.ReasonDeleting, "The agent of Cluster %s removes its control plane", s.one.Namespace)
}

// removeCluster deletes the Cluster, if it was made for this SimulatedCluster, and waits until it is gone.
func (c *Controller) removeCluster(ctx context.Context, s *scope) (bool, error) {
	if !s.owns() {
		return true, nil
	}
	if s.cluster.DeletionTimestamp == nil {
		err := c.Client.Delete(ctx, s.cluster.DeepCopy(), client.Preconditions{UID: &s.cluster.UID, ResourceVersion: &s.cluster.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting Cluster %s: %w", s.cluster.Name, err)
		}
	}
	after, err := readCluster(ctx, c.Live, s.one.Name)
	if err != nil || after == nil || after.UID != s.cluster.UID {
		return err == nil, err
	}
	return s.waitFor(v1alpha1.ReasonDeleting, "The hub revokes the access of its agent")
}

// removeNamespace deletes the namespace that the hub made for that Cluster, and waits until it is gone.
func (c *Controller) removeNamespace(ctx context.Context, s *scope) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := c.Live.Get(ctx, client.ObjectKey{Name: s.one.Name}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading namespace %s: %w", s.one.Name, err)
	case namespace.Annotations[v1alpha1.SimulatedClusterAnnotation] != s.one.ProofOfSimulation():
		return true, nil
	}
	if namespace.DeletionTimestamp == nil {
		uid := namespace.UID
		if err := c.Client.Delete(ctx, namespace, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting namespace %s: %w", s.one.Name, err)
		}
	}
	return s.waitFor(v1alpha1.ReasonNamespaceDeleting, "Its namespace is being deleted. If it stays, it may be kept by Machines that were given up: kubectl hollow cluster remove-finalizers %s", s.one.Name)
}
