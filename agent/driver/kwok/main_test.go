package kwok

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// The driver asks whether its cluster has real Nodes: the tests of other packages make some, so that this one has a control plane of its own.
func TestMain(m *testing.M) { testenv.Main(m) }
