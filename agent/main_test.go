package agent_test

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainParallel(m, 4) }
