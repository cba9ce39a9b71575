package loadtest

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
)

// The tests wait for runs and namespaces more than they work.
func TestMain(m *testing.M) { agenttest.MainParallel(m, 6) }
