package plan

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// limits are those fields of a Machine that a person may set on it although its MachineSet's template gives them, too.
type limits struct {
	Creation                *metav1.Duration `json:"creationTimeout,omitempty"`
	Health                  *metav1.Duration `json:"healthTimeout,omitempty"`
	Drain                   *metav1.Duration `json:"drainTimeout,omitempty"`
	UnhealthyNodeConditions []string         `json:"unhealthyNodeConditions,omitempty"`
}

func limitsOf(body *v1alpha1.MachineTemplateBody) limits {
	l := limits{UnhealthyNodeConditions: body.UnhealthyNodeConditions}
	if timeouts := body.Timeouts; timeouts != nil {
		l.Creation, l.Health, l.Drain = timeouts.Creation, timeouts.Health, timeouts.Drain
	}
	return l
}

// putInto makes l the limits of body.
func (l limits) putInto(body *v1alpha1.MachineTemplateBody) {
	body.UnhealthyNodeConditions, body.Timeouts = l.UnhealthyNodeConditions, nil
	if l.Creation != nil || l.Health != nil || l.Drain != nil {
		body.Timeouts = &v1alpha1.MachineTimeouts{Creation: l.Creation, Health: l.Health, Drain: l.Drain}
	}
}

// after is what l, a Machine's, becomes when its template gives wanted and gave before. What it lacks, and what it still
// has from before, it takes from wanted; anything else a user has set on this Machine.
func (l limits) after(before, wanted limits) limits {
	l.Creation = timeoutAfter(l.Creation, before.Creation, wanted.Creation)
	l.Health = timeoutAfter(l.Health, before.Health, wanted.Health)
	l.Drain = timeoutAfter(l.Drain, before.Drain, wanted.Drain)
	if len(l.UnhealthyNodeConditions) == 0 || slices.Equal(l.UnhealthyNodeConditions, before.UnhealthyNodeConditions) {
		l.UnhealthyNodeConditions = wanted.UnhealthyNodeConditions
	}
	return l
}

func timeoutAfter(has, before, wanted *metav1.Duration) *metav1.Duration {
	if has == nil || before != nil && has.Duration == before.Duration {
		return wanted
	}
	return has
}
