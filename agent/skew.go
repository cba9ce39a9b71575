package agent

import (
	"sync"

	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

// versionSkew knows whether an agent of a version may work for the hub of the version that the Cluster tells.
type versionSkew struct {
	own     string
	cluster func() *v1alpha1.Cluster
	clock   clock.PassiveClock

	mu sync.Mutex
	// known is why not, and since when; zero if it may.
	known freeze.Blocker
}

// Blocked tells why the agent may not work for that hub. It is a freeze.BlockerFunc.
func (s *versionSkew) Blocked() (why freeze.Blocker, blocked bool) {
	cluster := s.cluster()
	if cluster == nil {
		return freeze.Blocker{}, false
	}
	message := version.UnsupportedSkew(s.own, cluster.Status.HubVersion)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case message == "":
		s.known = freeze.Blocker{}
	case message != s.known.Message:
		s.known = freeze.Blocker{Reason: v1alpha1.ReasonVersionSkew, Message: message, Since: s.clock.Now()}
	}
	return s.known, message != ""
}
