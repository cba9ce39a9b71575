package hollow

import (
	"encoding/json"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// unhealthyOf is when config lets the Node be not Ready; nil if it does not, so that a Machine without these fields keeps its
// pod. turnUnhealthyAfter wins over turnUnhealthyPeriodically.
func unhealthyOf(config v1alpha1.HollowNodeConfig, path string) (*hollownode.Unhealthy, error) {
	if !config.TurnUnhealthyAfter && !config.TurnUnhealthyPeriodically {
		const remedy = "has no effect: set turnUnhealthyAfter or turnUnhealthyPeriodically to true, or remove it"
		switch {
		case config.HealthyDuration != nil:
			return nil, driver.Invalid(path+".healthyDuration", remedy)
		case config.UnhealthyDuration != nil:
			return nil, driver.Invalid(path+".unhealthyDuration", remedy)
		}
		return nil, nil
	}
	if config.HealthyDuration == nil {
		return nil, driver.Invalid(path+".healthyDuration", "missing: write how long the Node is Ready before it turns unhealthy, such as 5m")
	}
	unhealthy := &hollownode.Unhealthy{HealthyFor: *config.HealthyDuration}
	if config.TurnUnhealthyAfter {
		return unhealthy, nil
	}
	if config.UnhealthyDuration == nil {
		return nil, driver.Invalid(path+".unhealthyDuration", "missing: write how long the Node is not Ready each time, such as 1m")
	}
	unhealthy.UnhealthyFor = *config.UnhealthyDuration
	return unhealthy, nil
}

func readToggle(target *bool) setter {
	return func(value json.RawMessage, path string) error {
		var set *bool
		if err := readBoolean(&set)(value, path); err != nil {
			return err
		}
		*target = *set
		return nil
	}
}
