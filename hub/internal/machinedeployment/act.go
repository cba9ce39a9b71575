package machinedeployment

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// act decides once more, now on live reads, and carries that out. Every write has an optimistic lock, so a
// set that another client changes meanwhile is left alone; the first refused write ends the attempt, because what
// follows was decided together with it. known is the view of the cache, and worked what was known of the sets before.
func (c *Controller) act(ctx context.Context, deployment *v1alpha1.MachineDeployment, known *scope, worked map[types.UID]int64) error {
	// From the reads on which the decision rests to its last write.
	defer c.surges.lockGroup(deployment)()
	c.Snapshots.Drop(deployment.UID)
	begun, at := c.Snapshots.Now(), c.Clock.Now()
	s, machines, err := c.observeLive(ctx, deployment, known, worked, at)
	if err != nil || s == nil {
		return err
	}
	current := s.deployment
	fresh := current.ResourceVersion == deployment.ResourceVersion
	d := decide(s)
	if d.onlyScales() && len(d.Move) == 0 && d.Remove == nil {
		c.Snapshots.Put(deployment.UID, begun, at, machines)
	}
	ctx, end := c.traceAct(ctx, s, d)
	err = c.carryOut(ctx, s, d)
	end(err)
	if err != nil {
		return err
	}
	deployment.Status.CollisionCount = current.Status.CollisionCount
	if fresh {
		// The status to be written was computed from the version before our own write.
		deployment.ResourceVersion = current.ResourceVersion
	}
	return nil
}

// carryOut takes the steps of d, up to the first that is refused.
func (c *Controller) carryOut(ctx context.Context, s *scope, d decision) error {
	klog.FromContext(ctx).V(2).Info("Carrying out plan", "createNew", d.CreateNew, "scale", d.Scale,
		"change", len(d.changes), "adopt", len(d.adopt), "forget", len(d.forget), "settle", len(d.Settle),
		"move", len(d.Move), "replace", len(d.Replace), "remove", d.Remove != nil, "why", d.Why)
	for _, step := range []func(context.Context, *scope, decision) error{
		c.adoptSets, c.writeSets, c.createSet, c.writeRevision, c.transferMachines, c.deleteWithPlace, c.deleteNotUpdatable, c.deleteHistory,
	} {
		if err := step(ctx, s, d); err != nil {
			if _, settled := outcome.Retry(err); !settled {
				emitEvent(c.Recorder, s.deployment, failedEvent(err))
			}
			return err
		}
	}
	return nil
}

func (c *Controller) adoptSets(ctx context.Context, s *scope, d decision) error {
	for _, orphan := range d.adopt {
		adopted := orphan.DeepCopy()
		adopted.OwnerReferences = append(adopted.OwnerReferences, ownerReference(s.deployment))
		setLabels(&adopted.ObjectMeta, s.deployment)
		if err := c.patchObject(ctx, orphan, adopted); err != nil {
			return fmt.Errorf("adopting machine set %s: %w", orphan.Name, err)
		}
		emitEvent(c.Recorder, s.deployment, adoptedEvent(orphan))
	}
	return nil
}

// writeSets writes the sets that are not as they should be. The steps of a rollout are told by its start, its end, and by
// the sets; an event is for what a user has asked for.
func (c *Controller) writeSets(ctx context.Context, s *scope, d decision) error {
	for _, change := range d.changes {
		telemetry.Stamp(ctx, change.after)
		if err := c.patchObject(ctx, change.before, change.after); err != nil {
			return &outcome.Failure{Reason: v1alpha1.ReasonMachineUpdateFailed, Err: fmt.Errorf("changing machine set %s: %w", change.before.Name, err)}
		}
		if by := change.replicaChange(); by != 0 && len(d.Settle) == 0 {
			setsScaled.WithLabelValues(s.deployment.Spec.ClusterName).Inc()
			if !d.Rolling || s.deployment.Status.ObservedGeneration != s.deployment.Generation {
				emitEvent(c.Recorder, s.deployment, scaledEvent(change, s, d.Rolling))
			}
		}
		*change.before = *change.after // What follows writes the same set.
	}
	return nil
}

// createSet makes the set of the current template. Its name follows from the template: however stale the reads
// were, there is never a second one.
func (c *Controller) createSet(ctx context.Context, s *scope, d decision) error {
	if !d.CreateNew {
		return nil
	}
	set := newSet(s, d)
	telemetry.Stamp(ctx, set)
	err := c.Client.Create(ctx, set)
	switch {
	case apierrors.IsAlreadyExists(err):
		return c.resolveCollision(ctx, s, set)
	case err != nil:
		return &outcome.Failure{Reason: v1alpha1.ReasonCreateFailed, Err: fmt.Errorf("creating machine set %s: %w", set.Name, err)}
	}
	s.current = set
	if !d.startsRollout() {
		emitEvent(c.Recorder, s.deployment, createdEvent(set, d))
	}
	return nil
}

// resolveCollision finds out what to do about a set that has the name of the one to be made: nothing if it is that
// one, else take another hash the next time.
func (c *Controller) resolveCollision(ctx context.Context, s *scope, wanted *v1alpha1.MachineSet) error {
	existing := &v1alpha1.MachineSet{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(wanted), existing); err != nil {
		return fmt.Errorf("reading machine set %s, which exists already: %w", wanted.Name, err)
	}
	same, err := plan.SameTemplate(existing.Spec.Template, wanted.Spec.Template)
	if err != nil {
		return fmt.Errorf("comparing machine set %s: %w", existing.Name, err)
	}
	if same && metav1.IsControlledBy(existing, s.deployment) && existing.DeletionTimestamp == nil {
		return nil // Made meanwhile; its event is on the way.
	}
	collisions := int32(1)
	if s.deployment.Status.CollisionCount != nil {
		collisions += *s.deployment.Status.CollisionCount
	}
	s.deployment.Status.CollisionCount = &collisions
	emitEvent(c.Recorder, s.deployment, collisionEvent(existing))
	return nil
}

func newSet(s *scope, d decision) *v1alpha1.MachineSet {
	deployment := s.deployment
	template := new(s.machineTemplate()).DeepCopy()
	selector := maps.Clone(deployment.Spec.Selector.MatchLabels)
	selector[v1alpha1.MachineTemplateHashLabel] = s.hash
	template.Metadata.Labels[v1alpha1.MachineTemplateHashLabel] = s.hash
	set := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, Name: deployment.Name + "-" + s.hash,
			Labels:          maps.Clone(template.Metadata.Labels),
			OwnerReferences: []metav1.OwnerReference{ownerReference(deployment)},
		},
		Spec: v1alpha1.MachineSetSpec{
			ClusterName: deployment.Spec.ClusterName, Replicas: new(int32(d.NewReplicas)),
			MinReadySeconds: deployment.Spec.MinReadySeconds,
			DeletePolicy:    deployment.Spec.DeletePolicy, Remediation: deployment.Spec.Remediation,
			Selector: v1alpha1.MachineSelector{MatchLabels: selector},
			Template: *template,
		},
	}
	setLabels(&set.ObjectMeta, deployment)
	setRevision(&set.ObjectMeta, d.revision)
	setAnnotation(&set.ObjectMeta, v1alpha1.DesiredReplicasAnnotation, strconv.Itoa(replicasOf(deployment)))
	return set
}

// deleteHistory deletes sets of the history. The resource version keeps one safe that was scaled up meanwhile.
func (c *Controller) deleteHistory(ctx context.Context, _ *scope, d decision) error {
	for _, set := range d.forget {
		err := c.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return &outcome.Failure{Reason: v1alpha1.ReasonDeleteFailed, Err: fmt.Errorf("deleting old machine set %s: %w", set.Name, err)}
		}
	}
	return nil
}

// writeRevision writes the template's revision on the deployment.
func (c *Controller) writeRevision(ctx context.Context, s *scope, d decision) error {
	if !d.number {
		return nil
	}
	before := s.deployment.DeepCopy()
	setAnnotation(&s.deployment.ObjectMeta, v1alpha1.RevisionAnnotation, strconv.FormatInt(d.revision, 10))
	collisions := s.deployment.Status.CollisionCount
	if err := c.patchObject(ctx, before, s.deployment); err != nil {
		return fmt.Errorf("numbering the revision: %w", err)
	}
	s.deployment.Status.CollisionCount = collisions // The answer carries the status that is stored.
	if d.startsRollout() {
		emitEvent(c.Recorder, s.deployment, rolloutEvent(s, d))
	}
	return nil
}

func (c *Controller) patchObject(ctx context.Context, before, after client.Object) error {
	return c.Client.Patch(ctx, after, reconciler.MergeFromWithLock(before))
}

func ownerReference(deployment *v1alpha1.MachineDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))
}

// observeLive reads all that deployment's next step rests on from the API server, at once: every step of a rollout waits
// for it. It also returns the Machines. It returns nil if the deployment is gone, was recreated, or has another spec now; its event is on
// the way.
//
// A namespace may have thousands of deployments, so it asks for what carries the name of this one. A user can take that label away: what
// known, the view of the cache, has beside it is read by its name.
func (c *Controller) observeLive(ctx context.Context, deployment *v1alpha1.MachineDeployment, known *scope, worked map[types.UID]int64, now time.Time) (*scope, []*v1alpha1.Machine, error) {
	var s *scope
	var machines []*v1alpha1.Machine
	seen := make(chan struct{})
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		defer close(seen)
		s, err = c.newLiveScope(ctx, deployment, known, worked, now)
		return err
	})
	reads.Go(func() error {
		return c.eachMachineLive(ctx, deployment, known, func(machine *v1alpha1.Machine) {
			if <-seen; s != nil {
				s.addMachine(machine)
				machine.ManagedFields = nil // They are not needed, and they are nearly half of it.
				machines = append(machines, machine)
			}
		})
	})
	if err := reads.Wait(); err != nil || s == nil {
		return nil, nil, err
	}
	c.countMachines(s)
	return s, machines, nil
}

// newLiveScope reads all but the Machines.
func (c *Controller) newLiveScope(ctx context.Context, deployment *v1alpha1.MachineDeployment, known *scope, worked map[types.UID]int64, now time.Time) (*scope, error) {
	current := &v1alpha1.MachineDeployment{}
	var around related
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() error {
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(deployment), current); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the machine deployment again: %w", err)
		}
		return nil
	})
	reads.Go(func() (err error) {
		around, err = c.listRelated(ctx, c.Live, deployment, func(ctx context.Context) ([]v1alpha1.MachineSet, error) {
			return c.listSetsLive(ctx, deployment, known.setsBeside())
		})
		return err
	})
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	if current.UID != deployment.UID || current.Generation != deployment.Generation {
		return nil, nil
	}
	s, err := c.newScope(current, around, worked, now)
	if err != nil {
		return nil, err
	}
	for uid := range known.others {
		s.others[uid] = s.machines[uid] == nil
	}
	return s, nil
}

// setsBeside are the sets that concern the deployment, with or without its name.
func (s *scope) setsBeside() []*v1alpha1.MachineSet {
	var beside []*v1alpha1.MachineSet
	for _, sets := range [][]*v1alpha1.MachineSet{s.sets, s.orphans, s.leftovers, s.strangers} {
		beside = append(beside, sets...)
	}
	return beside
}

// listSetsLive lists the sets that carry the deployment's name, and those of beside that do not. Of a deployment that shares its surge it
// lists all of the namespace: those of its peers count.
func (c *Controller) listSetsLive(ctx context.Context, deployment *v1alpha1.MachineDeployment, beside []*v1alpha1.MachineSet) ([]v1alpha1.MachineSet, error) {
	list := &v1alpha1.MachineSetList{}
	options := []client.ListOption{client.InNamespace(deployment.Namespace)}
	if deployment.Spec.Strategy.SurgeGroup() == "" {
		options = append(options, client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: deployment.Name})
	}
	if err := c.Live.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing machine sets: %w", err)
	}
	missing := map[string]bool{}
	for _, set := range beside {
		missing[set.Name] = true
	}
	for i := range list.Items {
		delete(missing, list.Items[i].Name)
	}
	if len(missing) > machines.MostRereads {
		err := c.Live.List(ctx, list, client.InNamespace(deployment.Namespace))
		return list.Items, err
	}
	for name := range missing {
		set := &v1alpha1.MachineSet{}
		err := c.Live.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: name}, set)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading machine set %s again: %w", name, err)
		} else if err == nil {
			list.Items = append(list.Items, *set)
		}
	}
	return list.Items, nil
}

// eachMachineLive calls do with the deployment's Machines. Of a deployment that shares its surge they are all of the namespace.
func (c *Controller) eachMachineLive(ctx context.Context, deployment *v1alpha1.MachineDeployment, known *scope, do func(*v1alpha1.Machine)) error {
	if deployment.Spec.Strategy.SurgeGroup() != "" {
		return machines.Each(ctx, c.Live, do, client.InNamespace(deployment.Namespace), client.Limit(machines.LivePage))
	}
	labels := client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: deployment.Name}
	return machines.EachOf(ctx, c.Live, deployment.Namespace, labels, known.machineNames(), do)
}

// machineNames are the Machines of the deployment and its orphans.
func (s *scope) machineNames() map[string]bool {
	names := map[string]bool{}
	for _, set := range s.machines {
		for _, machine := range set.facts {
			names[machine.Name] = true
		}
	}
	for _, machine := range s.ownerless.facts {
		names[machine.Name] = true
	}
	return names
}
