package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

const (
	// beat is how often the Lease of the hub is read: a watch alone does not tell a quiet API server from one that is stopped.
	beat = 5 * time.Second
	// longestBeat is how long the API server may take for that.
	longestBeat = 5 * time.Second
)

// Pulse is what the API server last said of the hub.
type Pulse struct {
	// Hub is the state of the hub. Read is why it could not be read, such as a missing right.
	Hub  cmdutil.HubState
	Read error
	// Answered is when the API server answered last, and Lost why it does not answer now; nil while it does.
	Answered time.Time
	Lost     error
}

// HubAt is the state of the hub at now: its Lease may be read only every few seconds.
func (p Pulse) HubAt(now time.Time) cmdutil.HubState {
	state := p.Hub
	if state.Problem == "" && !p.Answered.IsZero() {
		state.Renewed += max(now.Sub(p.Answered), 0)
	}
	return state
}

// DescribeLost says since when the API server has not answered; empty while it does.
func (p Pulse) DescribeLost(now time.Time) string {
	lost := p.Lost
	if lost == nil && now.Sub(p.Answered) > 2*(beat+longestBeat) {
		lost = errSuspended
	}
	if lost == nil {
		return ""
	}
	return fmt.Sprintf("the hub's API server has not answered since %s (%s ago): %v", formatClock(p.Answered), now.Sub(p.Answered).Round(time.Second), lost)
}

// errSlow is an API server that takes connections and does not answer.
var errSlow = fmt.Errorf("no answer within %s", longestBeat)

// errSuspended is this program, which has not asked: it was suspended, or starves.
var errSuspended = errors.New("it was not asked, because this program was suspended")

// formatClock is a time of day with its zone, for a person who looks at a screen.
func formatClock(at time.Time) string { return at.Format("15:04:05 MST") }

// pulse reads the Lease of the hub again and again.
type pulse struct {
	client client.Reader

	mu  sync.Mutex
	now Pulse
}

// follow reads it until ctx ends, calls wake each time, and recovered when the API server answers again that did not.
func (p *pulse) follow(ctx context.Context, wake, recovered func()) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		lost := p.get().Lost != nil
		p.read(ctx)
		if lost && p.get().Lost == nil {
			recovered()
		}
		wake()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *pulse) read(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, longestBeat)
	defer cancel()
	started := time.Now()
	state, err := cmdutil.ReadHubState(asking, p.client, started)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err != nil && !apierrors.IsForbidden(err) {
		if p.now.Lost = err; asking.Err() != nil {
			p.now.Lost = errSlow
		}
		return
	}
	p.now = Pulse{Hub: state, Read: err, Answered: started}
}

func (p *pulse) get() Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}
