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
var ErrShutOut = errors.New("the hub refuses this agent")

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
func (d *Denial) Probed(err error, cluster *v1alpha1.Cluster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err):
		d.refusals++
		if d.admitted && d.refusals >= RefusalsToDeny {
			d.denyOnce(fmt.Sprintf("the hub refuses this agent, as it does when the cluster is denied or removed: %v", err))
		}
	case err != nil || cluster == nil:
	case cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied:
		d.refusals = 0
		d.denyOnce(fmt.Sprintf("Cluster %s is denied; 'kubectl hollow cluster accept %s' lets it in again", cluster.Name, cluster.Name))
	default:
		d.admitted, d.refusals = true, 0
		if d.why != nil {
			d.why, d.shut = nil, make(chan struct{})
		}
	}
}

// denyOnce keeps what was said first: it says most.
func (d *Denial) denyOnce(message string) {
	if d.why != nil {
		return
	}
	d.why = &freeze.Blocker{Reason: v1alpha1.ReasonDenied, Message: message, Since: d.clock.Now()}
	close(d.shut)
}

// Blocked tells why the agent may not work for this hub. It is a freeze.BlockerFunc.
func (d *Denial) Blocked() (why freeze.Blocker, blocked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why == nil {
		return freeze.Blocker{}, false
	}
	return *d.why, true
}

// Admission returns a runnable that ends with ErrShutOut once the agent is shut out.
func (d *Denial) Admission() manager.Runnable {
	d.mu.Lock()
	shut := d.shut
	d.mu.Unlock()
	return manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-shut:
			return ErrShutOut
		}
	})
}
