package fake_test

import (
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/driver/drivertest"
	"github.com/hollowfleet/hollowfleet/agent/driver/fake"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(*testing.T) drivertest.Subject {
		return drivertest.Subject{
			Driver: fake.New("c1"), Timeout: time.Second,
			Valid: `{"size": 1}`, Changed: `{"size": 2}`, Invalid: `{"invalid": true}`, InvalidField: "providerConfig.invalid",
		}
	})
}
