package machinedeployment

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	machinesets "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// transferMachines hands Machines of old sets over to the current one, whose template their agent then brings about in
// place: it locks the sets, so that their controller neither replaces a Machine that leaves nor deletes one that
// comes, and changes each Machine in one write. The next reconciliation gives each set as many replicas as it has
// Machines, and unlocks it. It does the same when this one ends anywhere in between: what a transfer was to do is
// written down nowhere, because what it has done can be seen.
func (c *Controller) transferMachines(ctx context.Context, s *scope, d decision) error {
	if len(d.Move) == 0 {
		return nil
	}
	err := c.moveAll(ctx, s, d)
	if _, settled := outcome.Retry(err); !settled {
		c.refused.Record(s.deployment.UID, err, c.Clock.Now())
	}
	return err
}

func (c *Controller) moveAll(ctx context.Context, s *scope, d decision) error {
	sources := map[string]*v1alpha1.MachineSet{}
	sets := []*v1alpha1.MachineSet{s.current}
	for _, pick := range d.Move {
		if sources[pick.Set] == nil {
			sources[pick.Set] = s.setNamed(pick.Set)
			sets = append(sets, sources[pick.Set])
		}
	}
	for _, set := range sets {
		if err := c.lockSet(ctx, set, d.revision); err != nil {
			return err
		}
	}
	for _, pick := range d.Move {
		if err := c.moveMachine(ctx, s, pick, sources[pick.Set], d.revision); err != nil {
			return err
		}
	}
	return nil
}

// lockSet keeps set's controller from creating and deleting. The resource version tells that no client has changed the
// set since it was read.
func (c *Controller) lockSet(ctx context.Context, set *v1alpha1.MachineSet, revision int64) error {
	before := set.DeepCopy()
	setAnnotation(&set.ObjectMeta, v1alpha1.TransferAnnotation, strconv.FormatInt(revision, 10))
	if err := c.patchObject(ctx, before, set); err != nil {
		return fmt.Errorf("locking machine set %s: %w", set.Name, err)
	}
	return nil
}

// moveMachine hands one Machine over, if it is still what it was when the decision was taken.
func (c *Controller) moveMachine(ctx context.Context, s *scope, pick plan.Pick, source *v1alpha1.MachineSet, revision int64) error {
	machine := &v1alpha1.Machine{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: source.Namespace, Name: pick.Name}, machine); err != nil {
		return client.IgnoreNotFound(err)
	}
	minReady := time.Duration(s.deployment.Spec.MinReadySeconds) * time.Second
	if machine.UID != pick.UID || machine.DeletionTimestamp != nil || !metav1.IsControlledBy(machine, source) ||
		machines.Of(machine, minReady, s.clock.At(c.Clock.Now())).Available && !pick.Available {
		return nil
	}
	before := machine.DeepCopy()
	assignToSet(machine, source, s.current, revision)
	telemetry.Stamp(ctx, machine)
	if err := c.patchObject(ctx, before, machine); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return &outcome.Failure{Reason: v1alpha1.ReasonMoveFailed, Err: fmt.Errorf("moving machine %s to machine set %s: %w", machine.Name, s.current.Name, err)}
	}
	emitEvent(c.Recorder, s.deployment, movedEvent(machine, s.current))
	return nil
}

// assignToSet changes all of machine that says to which set it belongs, and gives it that set's template,
// beside what a user has set on this Machine.
func assignToSet(machine *v1alpha1.Machine, source, target *v1alpha1.MachineSet, revision int64) {
	for i, owner := range machine.OwnerReferences {
		if owner.UID == source.UID {
			machine.OwnerReferences[i] = *metav1.NewControllerRef(target, v1alpha1.GroupVersion.WithKind("MachineSet"))
		}
	}
	machinesets.TemplateOf(target).Give(machine)
	body := target.Spec.Template.Spec.DeepCopy()
	machine.Spec.Versions, machine.Spec.ConfigSource, machine.Spec.ProviderConfig = body.Versions, body.ConfigSource, body.ProviderConfig
	machine.Spec.RequireVersionCode = body.RequireVersionCode
	delete(machine.Labels, v1alpha1.UpdateInPlaceLabel)
	setAnnotation(&machine.ObjectMeta, v1alpha1.InPlaceUpdateAnnotation, strconv.FormatInt(revision, 10))
}

// deleteWithPlace deletes one Machine together with its place: the set is locked, so that it makes no other, and loses the
// place when it is unlocked.
func (c *Controller) deleteWithPlace(ctx context.Context, s *scope, d decision) error {
	if d.Remove == nil {
		return nil
	}
	if err := c.lockSet(ctx, s.setNamed(d.Remove.Set), d.revision); err != nil {
		return err
	}
	err := c.deleteMachine(ctx, s, *d.Remove)
	if _, settled := outcome.Retry(err); !settled {
		c.refused.Record(s.deployment.UID, err, c.Clock.Now())
	}
	if err != nil {
		return err
	}
	emitEvent(c.Recorder, s.deployment, removedEvent(s.deployment.Namespace, *d.Remove))
	return nil
}

// deleteNotUpdatable deletes Machines that cannot be updated in place.
func (c *Controller) deleteNotUpdatable(ctx context.Context, s *scope, d decision) error {
	for _, pick := range d.Replace {
		if err := c.deleteMachine(ctx, s, pick); err != nil {
			return err
		}
		emitEvent(c.Recorder, s.deployment, replacedEvent(s.deployment.Namespace, pick))
	}
	return nil
}

func (c *Controller) deleteMachine(ctx context.Context, s *scope, pick plan.Pick) error {
	machine := &v1alpha1.Machine{}
	machine.Namespace, machine.Name = s.deployment.Namespace, pick.Name
	// A Machine that has changed since it was chosen stays, and so does another one of the same name.
	err := c.Client.Delete(ctx, machine, client.Preconditions{UID: &pick.UID, ResourceVersion: &pick.ResourceVersion})
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return &outcome.Failure{Reason: v1alpha1.ReasonDeleteFailed, Err: fmt.Errorf("deleting machine %s: %w", pick.Name, err)}
}

// setNamed is the one of that name.
func (s *scope) setNamed(name string) *v1alpha1.MachineSet {
	for _, set := range s.sets {
		if set.Name == name {
			return set
		}
	}
	return nil
}
