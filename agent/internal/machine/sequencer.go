package machine

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// sequencer lets the Machines of one MachineSet be updated one at a time when the update was not ordered for each of them:
// the edit of a MachineClass, or a new agent, concerns all of them at once and must not take the whole set down. It is
// only a memory: what it lacks is told by the Machines' conditions.
type sequencer struct {
	machines client.Reader
	wake     func(machine string)

	mu sync.Mutex
	// holder is the Machine of each set whose turn it is; waiting are those to wake when it is through.
	holder  map[types.UID]types.UID
	waiting map[types.UID]sets.Set[string]
}

func newSequencer(machines client.Reader, wake func(string)) *sequencer {
	return &sequencer{machines: machines, wake: wake, holder: map[types.UID]types.UID{}, waiting: map[types.UID]sets.Set[string]{}}
}

// takeTurn gives machine the turn of its set, unless one of its siblings has it or needs the others to stay.
func (t *sequencer) takeTurn(set types.UID, machine *v1alpha1.Machine, siblings []v1alpha1.Machine) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	free := true
	for i := range siblings {
		sibling := &siblings[i]
		if sibling.UID == machine.UID || !sibling.DeletionTimestamp.IsZero() || !memberOf(sibling, set) {
			continue
		}
		if sibling.NotDecoded() != "" {
			continue // It is left alone until it is repaired, which may take forever.
		}
		if t.holder[set] == sibling.UID || holdsUp(sibling) {
			free = false
			break
		}
	}
	// A Machine that is not Ready takes nothing away by being updated.
	if !free && isReady(machine) {
		if t.waiting[set] == nil {
			t.waiting[set] = sets.New[string]()
		}
		t.waiting[set].Insert(machine.Name)
		return false
	}
	if free {
		t.holder[set] = machine.UID
	}
	return true
}

// releaseTurn returns the Machine to wake, if one waits, when machine is Ready and up to date on the hub, or gone.
func (t *sequencer) releaseTurn(machine *v1alpha1.Machine) string {
	owner := metav1.GetControllerOfNoCopy(machine)
	if owner == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder[owner.UID] == machine.UID {
		delete(t.holder, owner.UID)
	}
	names := sets.List(t.waiting[owner.UID])
	if len(names) == 0 {
		delete(t.waiting, owner.UID)
		return ""
	}
	t.waiting[owner.UID].Delete(names[0])
	return names[0]
}

func memberOf(machine *v1alpha1.Machine, set types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(machine)
	return owner != nil && owner.UID == set
}

// holdsUp reports whether its siblings have to wait for a Machine: it is being updated, or it is on its way to
// Ready with what the others wait for. One that has failed, or waits itself, holds up no other.
func holdsUp(machine *v1alpha1.Machine) bool {
	updated := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	started := IsUpdating(Observation{Machine: machine})
	waits := updated != nil && updated.Status == metav1.ConditionFalse && !started
	return started || !isReady(machine) && !waits && machine.Status.ErrorReason == ""
}

func isReady(machine *v1alpha1.Machine) bool {
	return meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition)
}

// observeTurn lets a Machine wait whose update is not ordered for itself and whose turn it is not.
func (t *sequencer) observeTurn(ctx context.Context, s *scope) error {
	owner := metav1.GetControllerOfNoCopy(s.Machine)
	if owner == nil || IsUpdating(s.Observation) || Ordered(s.Machine) || s.Frozen {
		return nil
	}
	siblings := &v1alpha1.MachineList{}
	if err := t.machines.List(ctx, siblings, client.InNamespace(s.Machine.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		s.Update.Waiting = "its siblings are unknown"
		return fmt.Errorf("listing the machines of %s %s: %w", owner.Kind, owner.Name, err)
	}
	if !t.takeTurn(owner.UID, s.Machine, siblings.Items) {
		// The message does not name the Machine that goes first: it must not be written again with every turn.
		s.Update.Waiting = fmt.Sprintf("the machines of %s %s are updated one at a time, each when the previous one is Ready", owner.Kind, owner.Name)
		s.recheckWithin(turnRecheck)
	}
	return nil
}

// endTurn lets the next have its turn, when a Machine is as it should be and the hub knows it.
func (t *sequencer) endTurn(s *scope) {
	known := isReady(s.Machine) && meta.IsStatusConditionTrue(s.Machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	if known && Settled(s.Observation) && !s.Update.Cordoned {
		t.wakeNext(s.Machine)
	}
}

func (t *sequencer) wakeNext(machine *v1alpha1.Machine) {
	if name := t.releaseTurn(machine); name != "" {
		t.wake(name)
	}
}
