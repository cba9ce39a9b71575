package agent_test

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
)

func TestMain(m *testing.M) { agenttest.MainParallel(m, 4) }
