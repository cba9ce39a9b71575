package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Calendar is the maintenance windows and exclusions of a rollout that is not a MachineFleet's, at one moment.
type Calendar struct{ all *windows }

// Choice names the windows and exclusions of a Calendar that choose a cluster, by their places in the spec.
type Choice = choice

// NewCalendar reads them. The problem names the field below spec, such as maintenanceWindows[nights].schedule.
func NewCalendar(windows []v1alpha1.MaintenanceWindow, exclusions []v1alpha1.MaintenanceExclusion, now time.Time) (*Calendar, *Problem) {
	all, invalid := readWindows(windows, exclusions, now)
	return &Calendar{all: all}, invalid
}

// Choose finds those for a cluster with such labels.
func (c *Calendar) Choose(has labels.Set) Choice { return c.all.chooseFor(has) }

// Has reports whether a choice can be one of this calendar.
func (c *Calendar) Has(chosen Choice) bool {
	return isWithin(chosen.Windows, len(c.all.windows)) && isWithin(chosen.Exclusions, len(c.all.exclusions))
}

// IsClosed reports whether nothing may be started by a choice of this calendar, or by one of another, which may be nil; and when both are
// open next, zero if that is not known.
func (c *Calendar) IsClosed(chosen Choice, other *Calendar, otherChosen Choice) (closed bool, opens time.Time) {
	all := []hours{c.all.hoursFor(chosen)}
	if other != nil {
		all = append(all, other.all.hoursFor(otherChosen))
	}
	found := openingOf(c.all.now, all...)
	if opens = found.opens; opens.IsZero() {
		opens = found.again
	}
	return found.closed, opens
}
