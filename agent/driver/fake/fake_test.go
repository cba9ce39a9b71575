package fake_test

import (
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/driver/drivertest"
	"github.com/hollowfleet/hollowfleet/agent/driver/fake"
)

func TestConformance(t *testing.T) {
	for name, rigid := range map[string]bool{"in place": false, "rigid": true} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(*testing.T) drivertest.Subject {
				subject := fake.New("c1")
				if rigid {
					subject.RefuseInPlace()
				}
				return drivertest.Subject{
					Driver: subject, Timeout: time.Second, Rigid: rigid,
					Valid: `{"size": 1}`, Changed: `{"size": 2}`, Invalid: `{"invalid": true}`, InvalidField: "providerConfig.invalid",
				}
			})
		})
	}
}
