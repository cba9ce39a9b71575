package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

const (
	// decisionAge is how old a decision may be when it is carried out. A process that was stopped for a while, or waits for
	// a slow API server, decides again: the order that it had may have been taken back meanwhile.
	decisionAge   = 5 * time.Second
	outdatedRetry = 100 * time.Millisecond
)

// errOutdated says that a plan was not carried out to its end because it had become too old, or because a Machine has
// changed since the plan was made.
var errOutdated = &outcome.Wait{After: outdatedRetry, Reason: "Outdated", Message: "the decision is too old to carry out"}

// checkCurrent says whether what s was decided on is recent enough to act on.
func (c *Controller) checkCurrent(s *scope) error {
	if c.Clock.Since(s.read) > decisionAge {
		return errOutdated
	}
	return nil
}

// act decides once more, now on live reads, and carries that out: whatever the cache said, a set never gets
// more Machines than replicas by creating. The live read sees only Machines that the selector matches; strangers
// are those which the set owns nevertheless, as the cache has them. wanted is what was decided on the cache. It reports
// whether all of it was done.
func (c *Controller) act(ctx context.Context, set *v1alpha1.MachineSet, strangers []plan.Machine, wanted plan.Plan) (bool, error) {
	s, err := c.observeRecent(ctx, set, wanted)
	if err != nil {
		return false, err
	}
	if s == nil {
		if s, err = c.observeLive(ctx, set); err != nil || s == nil {
			return false, err
		}
		for _, stranger := range strangers {
			if !slices.ContainsFunc(s.input.Machines, func(m plan.Machine) bool { return m.UID == stranger.UID }) {
				s.input.Machines = append(s.input.Machines, stranger)
			}
		}
		c.checkOvershoot(s)
	}
	current := s.set
	decided, carriedOut, err := c.decide(ctx, s)
	if err != nil {
		return false, err
	}
	defer carriedOut()
	ctx, end := c.traceAct(ctx, current, decided)
	klog.FromContext(ctx).V(2).Info("Carrying out plan", "create", decided.Create, "delete", len(decided.Delete),
		"adopt", len(decided.Adopt), "release", len(decided.Release), "replace", len(decided.Replace),
		"update", len(decided.Update), "why", decided.Why)
	if s.staleTransfer && !decided.Empty() {
		staleTransferEvent().Send(c.Recorder, current)
	}
	defer func() { s.known.wrote = c.Snapshots.Now() }()
	err = errors.Join(
		c.releaseMachines(ctx, current, decided.Release),
		c.adoptOrphans(ctx, s, decided.Adopt),
		c.unmarkMachines(ctx, current, decided.Unmark),
		c.updateMachines(ctx, s, decided.Update),
		c.replaceFailed(ctx, s, decided.Replace),
		c.deleteMachines(ctx, s, decided.Delete),
		c.createMachines(ctx, s, decided.Create),
	)
	end(err)
	for _, failure := range outcome.Failures(err) {
		failedEvent(failure).Send(c.Recorder, current)
	}
	return err == nil, err
}

// observeRecent observes set with the Machines that its deployment read live a moment ago, after the set's last write. Nil
// says that they are of no use: there are none, or they lead to something else than the cache did, which is wanted. Two
// views that agree on how many Machines are made, and which ones go, are as good as a third one.
func (c *Controller) observeRecent(ctx context.Context, set *v1alpha1.MachineSet, wanted plan.Plan) (*scope, error) {
	owner, now := metav1.GetControllerOfNoCopy(set), c.Clock.Now()
	if owner == nil || !wanted.OnlyScales() {
		return nil, nil
	}
	machines, found := c.Snapshots.Since(owner.UID, c.known.memoryOf(set.UID, now).wrote, now)
	if !found {
		return nil, nil
	}
	var s *scope
	var current *v1alpha1.MachineSet
	read := c.Clock.Now()
	reads, readCtx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		s, err = c.observe(readCtx, c.Live, set, now, func(_ context.Context, do func(*v1alpha1.Machine)) error {
			for _, machine := range machines {
				do(machine)
			}
			return nil
		})
		return err
	})
	reads.Go(func() (err error) {
		current, err = c.rereadSet(readCtx, set)
		return err
	})
	if err := reads.Wait(); err != nil || current == nil || current.ResourceVersion != set.ResourceVersion {
		return nil, err
	}
	if c.checkOvershoot(s); !plan.Decide(s.input).Scales(wanted) {
		return nil, nil
	}
	s.read, s.complete = read, true
	if s.deployment == nil {
		return s, nil
	}
	return s, c.countElsewhere(ctx, c.Live, s, false)
}

// observeLive reads the Machines of set, its cluster and its deployment from the API server. It returns nil if the set is
// gone, was recreated, has another spec or another owner now, or changes all the time: an event of it is on the way.
func (c *Controller) observeLive(ctx context.Context, set *v1alpha1.MachineSet) (*scope, error) {
	for range 2 {
		s, err := c.observe(ctx, c.Live, set, c.Clock.Now(),
			machinesOf(c.Live, set.Namespace, client.MatchingLabels(set.Spec.Selector.MatchLabels), client.Limit(machines.LivePage)))
		if err != nil {
			return nil, err
		}
		s.read = c.Clock.Now()
		current, err := c.rereadSet(ctx, set)
		if err != nil || current == nil {
			return nil, err
		}
		if current.ResourceVersion == set.ResourceVersion {
			return s, nil
		}
		set = current
	}
	return nil, nil
}

// rereadSet reads the set itself, after its Machines: had a transfer started before that, a Machine that left would look like
// one that was lost. It returns nil if the set is gone, was recreated, or has another spec or another owner now.
func (c *Controller) rereadSet(ctx context.Context, set *v1alpha1.MachineSet) (*v1alpha1.MachineSet, error) {
	current := &v1alpha1.MachineSet{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(set), current); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the machine set again: %w", err)
	}
	if current.UID != set.UID || current.Generation != set.Generation || !sameOwner(current, set) {
		return nil, nil
	}
	return current, nil
}

// sameOwner reports whether the same controls both.
func sameOwner(a, b *v1alpha1.MachineSet) bool {
	return equality.Semantic.DeepEqual(metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b))
}

func (c *Controller) createMachines(ctx context.Context, s *scope, count int) error {
	if count == 0 {
		return nil
	}
	set := s.set
	selector := labels.SelectorFromSet(set.Spec.Selector.MatchLabels)
	machines := make([]*v1alpha1.Machine, count)
	for i := range machines {
		machines[i] = newMachine(s, i)
	}
	created, err := slowStart(count, s.known.creationBackoff.atOnce(c.Clock.Now()), func(i int) error {
		machine := machines[i]
		if err := c.checkCurrent(s); err != nil {
			return err
		}
		if err := c.createOne(ctx, machine); err != nil {
			return err
		}
		if !selector.Matches(labels.Set(machine.Labels)) {
			if err := c.discardMachine(ctx, selector, machine); err != nil {
				return err
			}
		}
		c.expected.expectChange(set.UID, machine.UID, false, c.Clock.Now())
		return nil
	})
	now := c.Clock.Now()
	s.known.replacements.Made(created)
	c.known.publishReplacements(s.known)
	s.known.creationBackoff.countMachines(created, now)
	s.known.arrivals.AddCreated(created)
	machinesCreated.WithLabelValues(set.Spec.ClusterName).Add(float64(created))
	s.known.made.addMachines(created, nil, now)
	if err == nil {
		s.known.creationBackoff.noteAccepted(now)
		return nil
	}
	if _, settled := outcome.Retry(err); settled {
		return err
	}
	createFailures.WithLabelValues(set.Spec.ClusterName).Inc()
	failure := &outcome.Failure{Reason: v1alpha1.ReasonCreateFailed, Err: fmt.Errorf("creating machines (%d of %d created): %w", created, count, err)}
	s.known.creationBackoff.noteRefused(failure, created, now)
	return failure
}

// createOne creates a Machine, which takes the trace on to its agent.
func (c *Controller) createOne(ctx context.Context, machine *v1alpha1.Machine) error {
	ctx, end := c.tracer.Start(ctx, "Machine.Create")
	telemetry.Stamp(ctx, machine)
	err := c.Client.Create(ctx, machine)
	trace.SpanFromContext(ctx).SetAttributes(telemetry.Object("machine", machine)...)
	end(err)
	return err
}

// discardMachine deletes a Machine again that the API server stored without the labels of its set's selector, which only
// an admission webhook can have taken. The set would let it go and make the next one, and so on. If the Machine is changed
// meanwhile, its new labels decide: nil says that they match, so that the Machine stays.
func (c *Controller) discardMachine(ctx context.Context, selector labels.Selector, machine *v1alpha1.Machine) error {
	uid := machine.UID
	refused := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := c.Client.Delete(ctx, machine.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &machine.ResourceVersion})
		if !apierrors.IsConflict(err) {
			return err
		}
		if readErr := c.Live.Get(ctx, client.ObjectKeyFromObject(machine), machine); readErr != nil {
			return readErr
		}
		if machine.UID == uid && selector.Matches(labels.Set(machine.Labels)) {
			return nil
		}
		return err
	})
	if refused == nil && selector.Matches(labels.Set(machine.Labels)) {
		return nil
	}
	err := fmt.Errorf("machine %s was stored without the labels of the set's selector: look for an admission webhook "+
		"that changes labels of machines", machine.Name)
	if client.IgnoreNotFound(refused) != nil {
		return errors.Join(err, fmt.Errorf("deleting it again: %w", refused))
	}
	return err
}

func (c *Controller) deleteMachines(ctx context.Context, s *scope, victims []plan.Victim) error {
	if len(victims) == 0 {
		return nil
	}
	victims = victims[:min(len(victims), creationsAtOnce)]
	deleted, err := inParallel(len(victims), func(i int) error {
		if err := c.checkCurrent(s); err != nil {
			return err
		}
		victim := victims[i].Machine
		if updated, found := s.outdated[victim.UID]; found {
			victim.ResourceVersion = updated.ResourceVersion // The update was for the same version, and moved it on.
		}
		return wrapConflict(c.deleteOne(ctx, s.set, victim))
	})
	s.known.creationBackoff.countMachines(-deleted, c.Clock.Now())
	machinesDeleted.WithLabelValues(s.set.Spec.ClusterName).Add(float64(deleted))
	s.known.deleted.addMachines(deleted, victims, c.Clock.Now())
	return refusedDeletion(deleted, len(victims), err)
}

// replaceFailed deletes failed Machines so that others are made for them. It writes the reason on each Machine first:
// that tells the Machine's story, it counts as in replacement from then on, and the write fails if the Machine is
// not what it was when the decision was taken.
func (c *Controller) replaceFailed(ctx context.Context, s *scope, failed []plan.Victim) error {
	if len(failed) == 0 {
		return nil
	}
	deleted, err := inParallel(len(failed), func(i int) error {
		machine := &v1alpha1.Machine{}
		if err := c.Live.Get(ctx, client.ObjectKey{Namespace: s.set.Namespace, Name: failed[i].Name}, machine); err != nil {
			return client.IgnoreNotFound(err)
		}
		if machine.UID != failed[i].UID || machine.DeletionTimestamp != nil || !isReplaceable(machine) {
			return nil
		}
		before := machine.DeepCopy()
		if machine.Annotations == nil {
			machine.Annotations = map[string]string{}
		}
		machine.Annotations[v1alpha1.RemediationAnnotation] = failed[i].Reason
		if err := c.Client.Patch(ctx, machine, reconciler.MergeFromWithLock(before)); err != nil {
			return wrapConflict(client.IgnoreNotFound(err))
		}
		victim := failed[i].Machine
		victim.ResourceVersion = machine.ResourceVersion // As it is with the reason, and with the error that was just checked.
		if err := c.deleteOne(ctx, s.set, victim); err != nil {
			return wrapConflict(err)
		}
		remediatedEvent(s.set.Name, failed[i].Why).Send(c.Recorder, machine)
		return nil
	})
	s.known.creationBackoff.countMachines(-deleted, c.Clock.Now())
	machinesReplaced.WithLabelValues(s.set.Spec.ClusterName).Add(float64(deleted))
	if deleted > 0 {
		replacedEvent(deleted, failed).Send(c.Recorder, s.set)
	}
	return refusedDeletion(deleted, len(failed), err)
}

// wrapConflict turns a conflict into errOutdated: a Machine that has changed since it was chosen is no failure, and the set
// decides again.
func wrapConflict(err error) error {
	if apierrors.IsConflict(err) {
		return errOutdated
	}
	return err
}

// deleteOne deletes one Machine if it is still what it was when it was chosen. Its UID keeps another one of the same name
// safe.
func (c *Controller) deleteOne(ctx context.Context, set *v1alpha1.MachineSet, victim plan.Machine) error {
	machine := &v1alpha1.Machine{}
	machine.Namespace, machine.Name = set.Namespace, victim.Name
	err := c.Client.Delete(ctx, machine, client.Preconditions{UID: &victim.UID, ResourceVersion: &victim.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	c.expected.expectChange(set.UID, victim.UID, true, c.Clock.Now())
	return nil
}

func refusedDeletion(deleted, wanted int, err error) error {
	if err == nil {
		return nil
	}
	return &outcome.Failure{Reason: v1alpha1.ReasonDeleteFailed, Err: fmt.Errorf("deleting machines (%d of %d deleted): %w", deleted, wanted, err)}
}

// newMachine is a Machine of the set, the one of that index among those to be made. The API server gives it a name. It
// carries the agent's finalizer from the start: no Machine can vanish before its agent has seen that it is to go.
func newMachine(s *scope, index int) *v1alpha1.Machine {
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.set.Namespace,
			GenerateName:    s.set.Name + "-",
			Finalizers:      []string{v1alpha1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{ownerReference(s.set)},
		},
		Spec: v1alpha1.MachineSpec{ClusterName: s.set.Spec.ClusterName, MachineTemplateBody: *s.set.Spec.Template.Spec.DeepCopy()},
	}
	s.template.Give(machine)
	if owed := s.known.replacements.Owed(); index < len(owed) {
		machine.Annotations[v1alpha1.ReplacesAnnotation] = owed[index]
	}
	return machine
}

func ownerReference(set *v1alpha1.MachineSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))
}
