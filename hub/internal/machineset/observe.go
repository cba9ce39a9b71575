package machineset

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	deployments "github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// scope is all that one reconciliation knows.
type scope struct {
	set *v1alpha1.MachineSet
	// deployment controls the set; nil if none does.
	deployment *v1alpha1.MachineDeployment
	// overlap says for which other sets or deployments this set waits, because they select each other's Machines.
	overlap string
	frozen  freeze.Verdict
	// clock is that of the Machines.
	clock *freeze.Clock
	// staleTransfer: the set carries TransferAnnotation, and there is no deployment to take it off again.
	staleTransfer bool
	input         plan.Input
	// counts are of the Machines that the set owns.
	counts machines.Counts
	// failed are those of them that have failed and are not being deleted.
	failed []machines.Failure
	// template is what the Machines are to have; outdated are those that lack something of it.
	template plan.Template
	outdated map[types.UID]*v1alpha1.Machine
	known    *recollection
	surplus  surplus
	creation creationVerdict
	// rollout: another set of the deployment has Machines, so that they go from one set to the other.
	rollout bool
	// siblings: another set of the deployment has Machines, or is to have some.
	siblings bool
	// elsewhere are the Machines that other sets of the deployment have in replacement, and beside is how many Machines
	// each of these sets has.
	elsewhere map[types.UID]bool
	beside    map[types.UID]int
	// complete: all Machines of the namespace were read, those of the other sets too.
	complete bool
	// read is when the last of what the decision rests on was asked for.
	read time.Time
}

// related is what there is above a set: its cluster, and the deployment that controls it. Either is nil if there is none. Overlap is
// about what there is beside it.
type related struct {
	cluster    *v1alpha1.Cluster
	deployment *v1alpha1.MachineDeployment
	overlap    string
}

// listRelated reads what is above and beside set, at once: every step of a rollout waits for it.
func listRelated(ctx context.Context, reader client.Reader, set *v1alpha1.MachineSet) (related, error) {
	var found related
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() error {
		cluster, name := &v1alpha1.Cluster{}, set.Spec.ClusterName
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, cluster); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("getting cluster %s: %w", name, err)
		} else if err == nil {
			found.cluster = cluster
		}
		return nil
	})
	reads.Go(func() (err error) {
		found.deployment, err = ownerOf(ctx, reader, set)
		return err
	})
	reads.Go(func() (err error) {
		found.overlap, err = overlapping(ctx, reader, set)
		return err
	})
	err := reads.Wait()
	return found, err
}

// lister calls do with Machines, among them all that a set may own.
type lister func(ctx context.Context, do func(*v1alpha1.Machine)) error

// machinesOf lists them in a namespace. Options narrow them.
func machinesOf(reader client.Reader, namespace string, options ...client.ListOption) lister {
	// Nothing changes a Machine, so a cache need not copy them.
	options = append(options, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	return func(ctx context.Context, do func(*v1alpha1.Machine)) error {
		return machines.Each(ctx, reader, do, options...)
	}
}

// observe reads what is above set and its Machines, at once, and sees what counts for the set.
func (c *Controller) observe(ctx context.Context, reader client.Reader, set *v1alpha1.MachineSet, now time.Time, each lister) (*scope, error) {
	var s *scope
	var found related
	seen := make(chan struct{})
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		defer close(seen)
		found, err = listRelated(ctx, reader, set)
		if err == nil {
			s = c.newScope(set, found, now)
		}
		return err
	})
	reads.Go(func() error {
		selector, minReady := labels.SelectorFromSet(set.Spec.Selector.MatchLabels), time.Duration(set.Spec.MinReadySeconds)*time.Second
		return each(ctx, func(machine *v1alpha1.Machine) {
			if <-seen; s != nil {
				s.addMachine(machine, selector, minReady, now)
			}
		})
	})
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	if s.clock.Stands {
		s.counts.NextAvailable = 0 // It stands, and the thaw wakes the set.
	}
	if err := s.leaveToNew(found.cluster); err != nil {
		return nil, err
	}
	s.creation = s.known.creationBackoff.verdictAt(s.input.Replicas, now)
	s.input.NoCreation, s.input.MostCreations = s.creation.why, s.creation.most
	s.input.NoUpdate = s.known.updateBackoff.retryAt.After(now)
	c.gatherOvershootFacts(s)
	return s, nil
}

// newScope takes in all of set but its Machines.
func (c *Controller) newScope(set *v1alpha1.MachineSet, found related, now time.Time) *scope {
	s := &scope{
		set: set, known: c.known.memoryOf(set.UID, now),
		template: plan.TemplateOf(set), outdated: map[types.UID]*v1alpha1.Machine{},
	}
	s.input = plan.Input{
		Now: now, Replicas: replicasOf(set), Deleting: set.DeletionTimestamp != nil,
		Policy: set.Spec.DeletePolicy, Remediation: set.Spec.Remediation, Invalid: s.template.SelectorProblem(set),
	}
	c.addRelated(s, found)
	if s.isHeld() {
		s.known.marks.restartMarks()
	}
	return s
}

func (s *scope) addMachine(machine *v1alpha1.Machine, selector labels.Selector, minReady time.Duration, now time.Time) {
	controller := metav1.GetControllerOfNoCopy(machine)
	owned := controller != nil && controller.UID == s.set.UID
	if controller != nil && !owned {
		s.addElsewhere(machine)
		return
	}
	matches := selector.Matches(labels.Set(machine.Labels))
	made := machine.Labels[v1alpha1.MachineSetNameLabel]
	if foreign := made != "" && made != s.set.Name; !owned && (!matches || foreign) {
		return
	}
	state := machines.Of(machine, minReady, s.clock)
	facts := plan.Machine{
		Name: machine.Name, UID: machine.UID, Created: machine.CreationTimestamp.Time, ResourceVersion: machine.ResourceVersion,
		Owned: owned, Orphan: controller == nil, Named: made == s.set.Name, Matches: matches, Deleting: state.Deleting,
		Priority: state.Priority, Failed: state.Failed, Reason: machine.Status.ErrorReason,
		Replaceable: isReplaceable(machine), Unhealthy: isUnhealthy(machine),
		Ready: state.Ready, Available: state.Available, Undecodable: machine.NotDecoded() != "",
	}
	facts.Remediated, facts.Replacement = inReplacement(machine, state)
	s.observeMark(machine, &facts, now)
	if owned && state.Failed && !state.Deleting {
		s.failed = append(s.failed, machines.Failure{Machine: machine.Name, Reason: machine.Status.ErrorReason, Message: machine.Status.ErrorMessage})
	}
	if owned {
		s.counts.Add(state)
		if matches && !facts.Undecodable && !s.template.Reached(machine) {
			facts.Outdated = true
			s.outdated[machine.UID] = machine
		}
	}
	s.input.Machines = append(s.input.Machines, facts)
}

// observeMark fills in the mark with which the autoscaler chooses a Machine to be deleted.
func (s *scope) observeMark(machine *v1alpha1.Machine, facts *plan.Machine, now time.Time) {
	value, marked := machine.Annotations[v1alpha1.DeleteMachineAnnotation]
	if !marked {
		return
	}
	facts.Marked, facts.MarkSeen = true, now
	if !s.isHeld() {
		facts.MarkSeen = s.known.marks.noteMark(machine.UID, value, now)
	}
	facts.MarkedAt = facts.MarkSeen
	if at, readable := plan.MarkTime(value); readable {
		facts.MarkedAt = at
	}
}

// leaveToNew finds out whether the set of the deployment's current template makes what this one lacks, as the
// deployment's planner counts on.
func (s *scope) leaveToNew(cluster *v1alpha1.Cluster) error {
	if s.deployment == nil || s.countMissing() == 0 || s.deployment.Spec.Paused || !deployments.LeavesToNew(s.deployment.Spec.Strategy) {
		return nil
	}
	template := s.deployment.Spec.Template
	if cluster != nil && v1alpha1.UnsupportedKubelet(template.Spec.Versions.Kubelet, cluster.Status.KubernetesVersion, template.Metadata.Annotations) != "" {
		return nil
	}
	progressing := meta.FindStatusCondition(s.deployment.Status.Conditions, v1alpha1.ProgressingCondition)
	if progressing != nil && progressing.Reason == v1alpha1.ReasonConfigSourceUnavailable {
		return nil
	}
	same, err := deployments.SameTemplate(s.set.Spec.Template, deployments.TemplateBeside(s.deployment, s.set))
	if err != nil {
		return fmt.Errorf("comparing with the template of the machine deployment: %w", err)
	}
	s.input.LeftToNew = !same
	return nil
}

// isHeld reports whether the set may do nothing at all for the time being.
func (s *scope) isHeld() bool { return s.input.Frozen || s.input.Transferring || s.overlap != "" }

// isReplaceable reports whether another Machine may not have the error that this one failed with: it took too long.
// Any other error is one of the configuration, and the next Machine would have it too.
func isReplaceable(machine *v1alpha1.Machine) bool {
	reason := machine.Status.ErrorReason
	return reason == v1alpha1.ErrorCreationTimeout || reason == v1alpha1.ErrorHealthTimeout
}

// isUnhealthy reports whether machine has failed, or was up and is known not to be well. What its agent does not know
// is not held against it; neither is that it comes up, is updated, or goes.
func isUnhealthy(machine *v1alpha1.Machine) bool {
	switch machine.Status.Phase {
	case v1alpha1.MachineFailed:
		return true
	case v1alpha1.MachineUpdating, v1alpha1.MachineTerminating:
		return false
	default:
		return !comingUp(machine) && meta.IsStatusConditionFalse(machine.Status.Conditions, v1alpha1.MachineHealthyCondition)
	}
}

// comingUp reports whether machine's Node has never been Ready.
func comingUp(machine *v1alpha1.Machine) bool {
	switch machine.Status.Phase {
	case "", v1alpha1.MachinePending, v1alpha1.MachineProvisioning:
		return true
	default:
		return false
	}
}

// addRelated finds out what freezes the set, whether its deployment moves its Machines, and whether an agent is connected.
func (c *Controller) addRelated(s *scope, found related) {
	cluster, deployment := found.cluster, found.deployment
	s.deployment, s.clock = deployment, freeze.ClockOf(cluster, s.input.Now)
	s.overlap, s.input.Overlap = found.overlap, found.overlap
	s.frozen = c.findFreeze(s.set, found)
	_, transfer := s.set.Annotations[v1alpha1.TransferAnnotation]
	s.input.Frozen = s.frozen.Frozen
	s.input.Transferring, s.staleTransfer = transfer && deployment != nil, transfer && deployment == nil
	s.input.Connected = cluster != nil &&
		meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
}

// ownerOf is the deployment that controls set; nil if there is none.
func ownerOf(ctx context.Context, reader client.Reader, set *v1alpha1.MachineSet) (*v1alpha1.MachineDeployment, error) {
	controller := metav1.GetControllerOfNoCopy(set)
	if controller == nil || controller.Kind != "MachineDeployment" {
		return nil, nil
	}
	deployment := &v1alpha1.MachineDeployment{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: controller.Name}, deployment)
	if apierrors.IsNotFound(err) || err == nil && deployment.UID != controller.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting machine deployment %s: %w", controller.Name, err)
	}
	return deployment, nil
}

func replicasOf(set *v1alpha1.MachineSet) int {
	return v1alpha1.DesiredReplicas(set.Spec.Replicas)
}
