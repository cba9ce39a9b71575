package machineset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// decide plans for s, which was read live. The sets of a deployment have its maxInFlight together, and are worked on at
// the same time: one that wants to replace Machines counts what the others have in flight while none of them can start.
// The bounds of the deployment are those of all its sets, too: one that wants to make Machines counts those of the others.
// The caller calls done when the plan is carried out.
func (c *Controller) decide(ctx context.Context, s *scope) (decided plan.Plan, done func(), err error) {
	decided, done = plan.Decide(s.input), func() {}
	if s.deployment == nil || len(decided.Replace) == 0 && decided.Create == 0 {
		return decided, done, nil
	}
	if len(decided.Replace) > 0 {
		done = c.replacing.Lock(s.deployment.UID)
	}
	if err := errors.Join(c.countBeside(ctx, s, len(decided.Replace) > 0), c.boundByDeployment(ctx, s)); err != nil {
		done()
		return plan.Plan{}, nil, err
	}
	wanted := decided.Create
	decided = plan.Decide(s.input)
	s.known.noRoom = decided.Create < wanted
	return decided, done, nil
}

// countBeside counts what the other sets of the deployment have. The selector by which s was read matches none of their
// Machines, so they are read if there may be any, or if not a single one may be missed.
func (c *Controller) countBeside(ctx context.Context, s *scope, must bool) error {
	if !must && !s.complete {
		if err := c.countElsewhere(ctx, c.Client, s, false); err != nil {
			return err
		}
	}
	if must || !s.complete && s.siblings {
		return c.countElsewhere(ctx, c.Live, s, true)
	}
	return nil
}

// boundByDeployment bounds what the set may make by what its deployment, as it was read live, allows all its sets
// together. The order that the set has may be older than that: the deployment was scaled down, and its controller has not
// taken the places off its sets yet.
func (c *Controller) boundByDeployment(ctx context.Context, s *scope) error {
	if s.deployment.Spec.Replicas == nil {
		s.input.Room = new(0) // The hub is about to fill it in.
		return nil
	}
	replicas := v1alpha1.DesiredReplicas(s.deployment.Spec.Replicas)
	all := replicas
	if group := s.deployment.Spec.Strategy.SurgeGroup(); group != "" {
		list := &v1alpha1.MachineDeploymentList{}
		if err := c.Client.List(ctx, list, client.InNamespace(s.set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing machine deployments of surge group %s: %w", group, err)
		}
		for i := range list.Items {
			if other := &list.Items[i]; other.UID != s.deployment.UID && other.Spec.Strategy.SurgeGroup() == group {
				all += v1alpha1.DesiredReplicas(other.Spec.Replicas)
			}
		}
	}
	surge, _ := s.deployment.Spec.Strategy.Bounds(all)
	if replicas == 0 {
		surge = 0
	}
	total := s.counts.Total
	for _, machines := range s.beside {
		total += machines
	}
	s.input.Room = new(replicas + surge - total)
	return nil
}

// countElsewhere counts what the other sets of the deployment have in flight: what their Machines show, which it reads again if asked, and
// what this process remembers of Machines that are gone and have no replacement yet.
func (c *Controller) countElsewhere(ctx context.Context, reader client.Reader, s *scope, again bool) error {
	if again {
		s.elsewhere, s.beside = nil, nil
		err := machines.Each(ctx, reader, s.addElsewhere, client.InNamespace(s.set.Namespace), client.UnsafeDisableDeepCopy,
			client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: s.deployment.Name}, client.Limit(machines.LivePage))
		if err != nil {
			return fmt.Errorf("counting the replacements of the deployment's other sets: %w", err)
		}
	}
	sets := &v1alpha1.MachineSetList{}
	if err := c.Client.List(ctx, sets, client.InNamespace(s.set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the deployment's other sets: %w", err)
	}
	s.input.Elsewhere = len(s.elsewhere)
	for i := range sets.Items {
		sibling := &sets.Items[i]
		switch {
		case sibling.UID == s.set.UID:
		case metav1.IsControlledBy(sibling, s.deployment):
			s.input.Elsewhere += c.known.countUnseen(sibling.UID, s.elsewhere)
			s.rollout = s.rollout || replicasOf(sibling) > 0
			s.siblings = s.rollout || s.siblings || sibling.Status.Replicas > 0
		default:
			delete(s.beside, sibling.UID) // Its Machines have the deployment's name, and nothing to do with it.
		}
	}
	return nil
}

// addElsewhere counts machine if another set of the deployment has it, and notes it if that set is replacing it, or has
// made it for one.
func (s *scope) addElsewhere(machine *v1alpha1.Machine) {
	controller := metav1.GetControllerOfNoCopy(machine)
	if s.deployment == nil || controller == nil || controller.Kind != "MachineSet" || controller.UID == s.set.UID ||
		machine.Labels[v1alpha1.MachineDeploymentNameLabel] != s.deployment.Name {
		return
	}
	if s.beside == nil {
		s.beside = map[types.UID]int{}
	}
	s.beside[controller.UID]++
	remediated, replacement := inReplacement(machine, machines.Of(machine, 0, s.input.Now))
	if deleting := machine.DeletionTimestamp != nil; remediated && deleting || replacement && !deleting {
		if s.elsewhere == nil {
			s.elsewhere = map[types.UID]bool{}
		}
		s.elsewhere[machine.UID] = true
	}
}

// inReplacement reports whether machine has been chosen to be replaced, and whether it was made for one that was and has
// not come up yet.
func inReplacement(machine *v1alpha1.Machine, state machines.State) (remediated, replacement bool) {
	_, remediated = machine.Annotations[v1alpha1.RemediationAnnotation]
	_, replacement = machine.Annotations[v1alpha1.ReplacesAnnotation]
	return remediated, replacement && !state.Ready && !state.Failed && comingUp(machine)
}

// MaxAge is how old the beginning of a read may be when it is used. It is about what one read may take anyway.
const MaxAge = time.Second

// Stamp is a moment in the order of reads and writes of this process. The zero value is before all others.
type Stamp uint64

// Snapshots lets a MachineSet use what its MachineDeployment has read of the Machines a moment ago: those reads are most of
// what a step of a rollout takes. docs/design/machinedeployments.md says what makes it safe.
//
// It has the last read of each deployment, which is never changed after it was put. Nil has none.
type Snapshots struct {
	mu    sync.Mutex
	last  Stamp
	taken map[types.UID]*read
}

type read struct {
	begun    Stamp
	at       time.Time
	machines []*v1alpha1.Machine
}

// NewSnapshots returns Snapshots without any read.
func NewSnapshots() *Snapshots { return &Snapshots{taken: map[types.UID]*read{}} }

// Now returns a stamp that is after all that were returned before.
func (s *Snapshots) Now() Stamp {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// Put offers to the sets of deployment all Machines that it and they have, by a read that started at that stamp and time. The
// caller must not change a Machine afterwards, neither here nor in the API server, without a Drop before.
func (s *Snapshots) Put(deployment types.UID, begun Stamp, at time.Time, machines []*v1alpha1.Machine) {
	if s == nil {
		return
	}
	taken := &read{begun: begun, at: at, machines: machines}
	s.mu.Lock()
	s.taken[deployment] = taken
	s.mu.Unlock()
	// What may not be used any more takes up no memory.
	time.AfterFunc(MaxAge, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.taken[deployment] == taken {
			delete(s.taken, deployment)
		}
	})
}

// Drop takes back what was put for deployment.
func (s *Snapshots) Drop(deployment types.UID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, deployment)
}

// Since returns what was put for deployment if that read started after the stamp, and no longer than MaxAge before now.
func (s *Snapshots) Since(deployment types.UID, stamp Stamp, now time.Time) ([]*v1alpha1.Machine, bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.taken[deployment]
	if taken == nil || taken.begun <= stamp || now.Sub(taken.at) > MaxAge {
		return nil, false
	}
	return taken.machines, true
}
