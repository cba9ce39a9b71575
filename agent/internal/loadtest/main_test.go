package loadtest

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// The tests wait for runs and namespaces more than they work.
func TestMain(m *testing.M) { testenv.MainParallel(m, 6) }
