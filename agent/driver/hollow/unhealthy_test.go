package hollow

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

func TestUnhealthy(t *testing.T) {
	of := func(healthy, unhealthy time.Duration) *hollownode.Unhealthy {
		return &hollownode.Unhealthy{HealthyFor: metav1.Duration{Duration: healthy}, UnhealthyFor: metav1.Duration{Duration: unhealthy}}
	}
	for name, test := range map[string]struct {
		fields, problem string
		want            *hollownode.Unhealthy
	}{
		"nothing":      {``, "", nil},
		"turned off":   {`,"turnUnhealthyAfter":false,"turnUnhealthyPeriodically":false`, "", nil},
		"after":        {`,"turnUnhealthyAfter":true,"healthyDuration":"5m"`, "", of(5*time.Minute, 0)},
		"at once":      {`,"turnUnhealthyAfter":true,"healthyDuration":"0s"`, "", of(0, 0)},
		"periodically": {`,"turnUnhealthyPeriodically":true,"healthyDuration":"40s","unhealthyDuration":"20s"`, "", of(40*time.Second, 20*time.Second)},
		"both, of which the first wins": {
			`,"turnUnhealthyAfter":true,"turnUnhealthyPeriodically":true,"healthyDuration":"40s","unhealthyDuration":"20s"`, "", of(40*time.Second, 0),
		},
		"after nothing": {`,"turnUnhealthyAfter":true`, "c.healthyDuration: missing: write how long the Node is Ready before it turns unhealthy, such as 5m", nil},
		"periodically for nothing": {
			`,"turnUnhealthyPeriodically":true,"healthyDuration":"40s"`, "c.unhealthyDuration: missing: write how long the Node is not Ready each time, such as 1m", nil,
		},
		"healthy for nothing":   {`,"healthyDuration":"40s"`, "c.healthyDuration: has no effect: set turnUnhealthyAfter or turnUnhealthyPeriodically to true, or remove it", nil},
		"unhealthy for nothing": {`,"unhealthyDuration":"40s"`, "c.unhealthyDuration: has no effect: set turnUnhealthyAfter or turnUnhealthyPeriodically to true, or remove it", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: func() *driver.Class {
				class := classOf(`{` + head + test.fields + `}`)
				class.Path = "c"
				return class
			}()})
			if test.problem != "" {
				if !errors.Is(err, driver.ErrInvalidConfiguration) || err.Error() != test.problem {
					t.Errorf("got  %v\nwant %s", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.configuration.Unhealthy); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := hollownode.Marshal(got.configuration); err != nil {
				t.Errorf("a hollow-node would refuse it: %v", err)
			}
		})
	}
}
