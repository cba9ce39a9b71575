package clusterstatus

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }
