package rollout

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/internal/backoff"
)

// The time until a write is tried again that the API server refused. Meanwhile nothing is started in that cluster, and the
// others continue.
const (
	FirstRetry = backoff.First
	LastRetry  = backoff.Longest
)

// place is a cluster of a fleet.
type place struct {
	fleet   types.UID
	cluster string
}

// refusals are the writes that were refused.
type refusals = backoff.Failures[place]
