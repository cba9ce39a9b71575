package disrupt

import (
	"cmp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// UnhealthyDevices returns which devices of one kind are unhealthy, in the order of all.
func (s *State) UnhealthyDevices(node, kind string, all []string) []string {
	failed := s.FailedDevices(node, kind, all)
	return slices.DeleteFunc(slices.Clone(all), func(device string) bool { return failed[device] == "" })
}

// FailedDevices returns which devices of one kind have failed, and the effects of the taints that they have where a device can have taints.
func (s *State) FailedDevices(node, kind string, all []string) map[string]resourcev1.DeviceTaintEffect {
	failed := map[string]resourcev1.DeviceTaintEffect{}
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
			if failed[device] != resourcev1.DeviceTaintEffectNoExecute {
				failed[device] = cmp.Or(p.Effect, resourcev1.DeviceTaintEffectNoSchedule)
			}
		}
	}
	return failed
}
