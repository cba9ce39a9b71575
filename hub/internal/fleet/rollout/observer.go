// Package rollout observes MachineFleets, decides how their rollouts continue, and says in their status how far they are. It writes nothing:
// the controller carries a decision out, and the command line shows it.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

// FieldOwner is who the API server says wrote what the controller of fleets writes.
const FieldOwner = client.FieldOwner("hollowfleet-fleet")

// Deps is what an Observer needs. All of it is required.
type Deps struct {
	// Client reads from the cache, and asks the API server by dry runs whether it takes a template.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Placements reads Placements while their kind is installed.
	Placements Placements
	// Agents tells which agents this process has heard.
	Agents agents
}

// Placements reads Placements, or says that their kind is not installed, or that this is not known yet.
type Placements interface {
	Cached() (client.Reader, error)
	Live() (client.Reader, error)
}

// agents tells which agents this process has heard.
type agents interface {
	// RenewedAt is when the Lease of a cluster's agent was renewed last; zero if that is not known.
	RenewedAt(cluster string) time.Time
	// Verdict freezes a cluster whose agent was not heard yet.
	Verdict(cluster *v1alpha1.Cluster) freeze.Verdict
}

// Observer observes fleets. It remembers what is stored nowhere: since when it has seen something, and what the API server answered.
type Observer struct {
	Deps
	refused  refusals
	contests contests
	// proven tells, by MachineDeployment, whether the record of an older hub is of that very object.
	proven     ByUID[bool]
	seen       sightings
	validated  validations
	remembered ByUID[Snapshot]
	spellings  ByUID[Spelling]
}

// NewObserver returns an Observer.
func NewObserver(deps Deps) (*Observer, error) {
	if deps.Client == nil || deps.Live == nil || deps.Placements == nil || deps.Agents == nil {
		return nil, errors.New("making an observer of MachineFleets: a dependency is missing")
	}
	return &Observer{Deps: deps}, nil
}

// ObserveCached reads all that the fleet's next step rests on, from the cache. It returns nil if this process has not read the Placements
// yet; that it has will be news.
func (r *Observer) ObserveCached(ctx context.Context, fleet *v1alpha1.MachineFleet, now time.Time) (*Scope, error) {
	return r.observe(ctx, sources{r.Client, false, r.Placements.Cached}, fleet, now)
}

// ObserveLive reads everything from the API server. It returns nil if the fleet was deleted, recreated or changed; its watch event
// requeues it.
func (r *Observer) ObserveLive(ctx context.Context, fleet *v1alpha1.MachineFleet, now time.Time) (*Scope, error) {
	current := &v1alpha1.MachineFleet{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(fleet), current); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the machine fleet again: %w", err)
	}
	if current.UID != fleet.UID || current.Generation != fleet.Generation {
		return nil, nil
	}
	return r.observe(ctx, sources{r.Live, true, r.Placements.Live}, current, now)
}

// NoteWrite remembers the result of a write to a cluster: after a refusal nothing is started there for a while.
func (r *Observer) NoteWrite(fleet types.UID, cluster string, err error, now time.Time) {
	r.refused.Record(place{fleet, cluster}, err, now)
}
