package v1alpha1

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// SeedValue is the seed that decides; 0 if none is set.
func (d *Disruption) SeedValue() int64 {
	if d.Seed == nil {
		return 0
	}
	return *d.Seed
}

// Validate reports all that keeps d from being carried out, however long one waits: what the API server refuses too, for those who
// ask before they create it, and for objects that are older than a rule.
func (d *Disruption) Validate() error {
	problems := []error{d.Target.validate()}
	for i := range d.Faults {
		if err := d.Faults[i].Validate(); err != nil {
			problems = append(problems, fmt.Errorf("spec.faults[%d]: %w", i, err))
		}
	}
	if len(d.Faults) == 0 {
		problems = append(problems, errors.New("spec.faults: at least one is required"))
	}
	if err := d.Timing.validate(); err != nil {
		problems = append(problems, fmt.Errorf("spec.timing: %w", err))
	}
	most := d.Timing.Duration.Duration - d.Timing.HealthyFor.Duration - d.Timing.Jitter.Duration
	for i, expectation := range d.Expectations {
		switch within := expectation.Within.Duration; {
		case within <= 0:
			problems = append(problems, fmt.Errorf("spec.expectations[%d].within: want more than 0s, got %s", i, within))
		case within > most:
			problems = append(problems, fmt.Errorf("spec.expectations[%d].within: %s is longer than the run, which lasts %s from its first fault on: shorten it, or set a longer timing.duration",
				i, within, max(most, 0)))
		}
	}
	return errors.Join(problems...)
}

func (t *DisruptionTarget) validate() error {
	mode := cmp.Or(t.Mode, disrupt.ModeAll)
	if (mode == disrupt.ModeFixed || mode == disrupt.ModePercent) && t.Value <= 0 {
		return fmt.Errorf("spec.target.value: required for the mode %s, more than 0", mode)
	}
	if err := (disrupt.Selection{Mode: mode, Value: t.Value}).Validate(); err != nil {
		return fmt.Errorf("spec.target.%w", err)
	}
	return nil
}

func (t *DisruptionTiming) validate() error {
	start := metav1.NewTime(time.Unix(0, 0))
	timing := disrupt.Timing{
		Start: start, End: metav1.NewTime(start.Add(t.Duration.Duration.Truncate(time.Second))),
		HealthyFor: t.HealthyFor, UnhealthyFor: t.UnhealthyFor, Jitter: t.Jitter, Repeat: t.Repeat,
	}
	if t.Duration.Duration < time.Second || t.Duration.Duration > disrupt.MaxLength {
		return fmt.Errorf("duration: want a duration from 1s to %s, got %s", disrupt.MaxLength, t.Duration.Duration)
	}
	if after := t.StartAfter.Duration; after < 0 || after > disrupt.MaxLength {
		return fmt.Errorf("startAfter: want a duration from 0s to %s, got %s", disrupt.MaxLength, after)
	}
	return timing.Validate()
}
