package fake_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/clusterdrivertest"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/fake"
)

func TestConformance(t *testing.T) {
	clusterdrivertest.Run(t, func(*testing.T) clusterdrivertest.Subject {
		return clusterdrivertest.Subject{
			Driver: fake.New(clock.RealClock{}, "v1.37", "v1.36", "v1.35").BoundMemory(resource.MustParse("1Ti")), Huge: "2Ti",
			Version: "v1.35", Other: "v1.36", Later: "v1.37", Unsupported: "v1.20", Timeout: time.Second,
		}
	})
}
