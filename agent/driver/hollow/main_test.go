package hollow

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
)

func TestMain(m *testing.M) { agenttest.MainShared(m) }
