package disrupt

import (
	"slices"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// UnhealthyDevices returns which devices of one kind are unhealthy, in the order of all.
func (s *State) UnhealthyDevices(node, kind string, all []string) []string {
	hit := map[string]bool{}
	for i := range s.Devices {
		e := &s.Devices[i]
		p := e.Fault.DeviceFailure
		if p == nil {
			p = &plan.DeviceFailureParameters{}
		}
		if p.Name != "" && p.Name != kind {
			continue
		}
		for _, device := range plan.Choose(int(p.Count), all, e.Seed, "device", node, e.UID, e.Index, kind) {
			hit[device] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(device string) bool { return !hit[device] })
}
