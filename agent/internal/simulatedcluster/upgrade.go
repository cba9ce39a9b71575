package simulatedcluster

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
)

// step is the version that the driver is asked for next.
type step struct {
	version string
	// waiting is why it is not the one that is wanted; empty if it is. hold: until then the driver is left with what it was asked for.
	waiting string
	hold    bool
}

// nextStep decides which version the driver is asked for: that which is wanted if it is of the minor that runs or of the next, else the next.
// No step is taken before all that runs has the minor of the last one and is healthy, and none back.
func (s *scope) nextStep(healthy bool) (step, *clusterdriver.RefusedError) {
	want := s.one.Spec.Versions.ControlPlane
	runs, known := s.runningMinor()
	target, err := minorOf(cmp.Or(want, s.newestVersion()))
	switch {
	case !known, err != nil:
		return step{version: want}, nil //nolint:nilerr // The driver refuses what it cannot do.
	case target < runs:
		return step{}, &clusterdriver.RefusedError{Refusal: clusterdriver.Downgrade, Problem: fmt.Sprintf(
			"%s is earlier than v1.%d, which runs, and a control plane cannot go back to an earlier minor: choose v1.%d or later, or create another SimulatedCluster",
			cmp.Or(want, s.newestVersion()), runs, runs)}
	case target == runs:
		return step{version: want}, nil
	case !healthy:
		return step{version: cmp.Or(s.memory.ensured.ControlPlaneVersion, minorText(runs)), hold: true, waiting: fmt.Sprintf("it gets v1.%d when all of its components are healthy in v1.%d", runs+1, runs)}, nil
	case target == runs+1:
		return step{version: want}, nil
	}
	return step{version: minorText(runs + 1), waiting: fmt.Sprintf("an upgrade skips no minor, so it gets v1.%d first", runs+1)}, nil
}

// runningMinor is the minor that the API server has, or had when it answered last.
func (s *scope) runningMinor() (minor uint, known bool) {
	if s.found == nil {
		return 0, false
	}
	runs := s.found.Version
	if reported := s.one.Status.Versions; runs == "" && reported != nil {
		runs = reported.ControlPlane
	}
	minor, err := minorOf(runs)
	return minor, err == nil
}

// areComponentsAt reports whether all components whose versions are known have a minor.
func (s *scope) areComponentsAt(minor uint) bool {
	for _, component := range []string{s.found.ControllerManager, s.found.Scheduler} {
		if runs, err := minorOf(component); component != "" && (err != nil || runs != minor) {
			return false
		}
	}
	return true
}

// newestVersion is the last of those that the driver can run; empty if they are not known.
func (s *scope) newestVersion() string {
	if len(s.versions) == 0 {
		return ""
	}
	newest := s.versions[0]
	for _, other := range s.versions[1:] {
		a, errA := minorOf(newest)
		if b, errB := minorOf(other); errA == nil && errB == nil && b > a {
			newest = other
		}
	}
	return newest
}

// isReached reports whether what runs is the version that is wanted, in all components.
func (s *scope) isReached() bool {
	want := cmp.Or(s.one.Spec.Versions.ControlPlane, s.newestVersion())
	target, err := minorOf(want)
	if err != nil {
		return true // Which one the driver's default is, is not known.
	}
	runs, known := s.runningMinor()
	return known && runs == target && s.areComponentsAt(target) &&
		(s.one.Spec.Versions.ControlPlane == "" || sameVersion(s.found.Version, s.one.Spec.Versions.ControlPlane))
}

func minorOf(text string) (uint, error) {
	parsed, err := version.ParseGeneric(text)
	if err != nil {
		return 0, err //nolint:wrapcheck // It names the text.
	}
	return parsed.Minor(), nil
}

func minorText(minor uint) string { return fmt.Sprintf("v1.%d", minor) }
