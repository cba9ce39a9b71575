package hubidentity

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// RefusalsToDeny refusals in a row are meant: an API server that has just started may refuse for a moment, before it has read who
// has which rights.
const RefusalsToDeny = 3

// ErrShutOut says that what the agent has open on the hub has to end.
var ErrShutOut = errors.New("the hub has shut this agent out")

// Denial knows whether the hub has shut the agent out.
type Denial struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// admitted: the hub has let the agent in before. One that waits for that has nothing open.
	admitted bool
	refusals int
	// why is there while the agent is shut out; shut is closed then.
	why  *freeze.Blocker
	shut chan struct{}
}

// NewDenial returns the Denial of an agent that is not shut out.
func NewDenial(clock clock.PassiveClock) *Denial {
	return &Denial{clock: clock, shut: make(chan struct{})}
}

// Probed takes in what came of a probe of the hub, and the Cluster as it was seen last. Only an answer counts: a hub
// that cannot be reached denies no agent.
func (k *Denial) Probed(err error, cluster *v1alpha1.Cluster) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err):
		k.refusals++
		if k.admitted && k.refusals >= RefusalsToDeny {
			k.deny(fmt.Sprintf("the hub refuses this agent, as it does when the cluster is denied or removed: %v", err))
		}
	case err != nil || cluster == nil:
	case cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied:
		k.refusals = 0
		k.deny(fmt.Sprintf("Cluster %s is denied; 'kubectl hollow cluster accept %s' lets it in again", cluster.Name, cluster.Name))
	default:
		k.admitted, k.refusals = true, 0
		if k.why != nil {
			k.why, k.shut = nil, make(chan struct{})
		}
	}
}

// deny keeps what was said first: it says most.
func (k *Denial) deny(message string) {
	if k.why != nil {
		return
	}
	k.why = &freeze.Blocker{Reason: v1alpha1.ReasonDenied, Message: message, Since: k.clock.Now()}
	close(k.shut)
}

// Blocked tells why the agent may not work for this hub. It implements freeze.Barrier.
func (k *Denial) Blocked() (why freeze.Blocker, barred bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.why == nil {
		return freeze.Blocker{}, false
	}
	return *k.why, true
}

// Admission returns a runnable that ends with ErrShutOut once the agent is shut out.
func (k *Denial) Admission() manager.Runnable {
	k.mu.Lock()
	shut := k.shut
	k.mu.Unlock()
	return manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-shut:
			return ErrShutOut
		}
	})
}
