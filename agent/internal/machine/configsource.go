package machine

import (
	"fmt"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// checkConfigSource finds out whether the Machine's KubeletConfiguration is known, and whether its driver takes one. Until the hub has
// taken the content, everything stays as it is: a node without the configuration is not what was asked for.
func (c *classes) checkConfigSource(s *scope) {
	source := s.Machine.Spec.ConfigSource
	switch {
	case source == nil || s.Terminal != nil || s.Unresolved != nil:
	case !driver.TakesKubeletConfiguration(s.driver):
		s.Terminal = &Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: fmt.Sprintf(
			"spec.configSource: provider %q takes no KubeletConfiguration: remove the field, or use provider %s", s.Provider, v1alpha1.ProviderHollow)}
	case !source.IsResolved():
		s.class = nil
		s.Unresolved = &Unresolved{Reason: v1alpha1.ReasonAwaitingConfigSource, Message: fmt.Sprintf(
			"spec.configSource: the hub has not taken key %s of ConfigMap %s/%s yet: if this stays, an event of the machine says what is missing there",
			source.Key, s.Machine.Namespace, v1alpha1.KubeletConfigMap)}
	}
}

// setConfigSource tells which KubeletConfiguration the Machine is to have, has, and had last when its Node was Ready. What is not known
// now stays as it was last reported.
func setConfigSource(status *v1alpha1.MachineStatus, in Input) {
	told := v1alpha1.MachineConfigStatus{}
	if status.ConfigSource != nil {
		told = *status.ConfigSource.DeepCopy()
	}
	source := in.Machine.Spec.ConfigSource
	told.Assigned, told.Error = "", ""
	if source != nil && source.IsResolved() {
		told.Assigned = v1alpha1.ContentHash(source.Resolved.Content)
	}
	if in.InstanceKnown {
		told.Active, told.Ignored = "", nil
		if in.Instance != nil {
			told.Active, told.Ignored = in.Instance.Config, in.Instance.IgnoredFields
		}
	}
	if told.Active != "" && Settled(in.Observation) {
		told.LastKnownGood = told.Active
	}
	switch {
	case in.Unresolved != nil && source != nil && !source.IsResolved():
		told.Error = in.Unresolved.Message
	case in.Terminal != nil && told.Assigned != told.Active:
		told.Error = in.Terminal.Message
	}
	told.Error = conditions.Shorten(told.Error, conditions.MaxMessage)
	if status.ConfigSource = &told; source == nil && told.Active == "" {
		status.ConfigSource = nil
	}
}
