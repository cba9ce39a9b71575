package fakecri

import (
	"fmt"
	"time"
)

// Annotations of a pod that script its main containers. All but the last have a duration such as "5s", from 0.
const (
	// StartedAfterAnnotation and ReadyAfterAnnotation let startup and readiness probes fail until the container has run
	// for so long.
	StartedAfterAnnotation = "hollowfleet.io/started-after"
	ReadyAfterAnnotation   = "hollowfleet.io/ready-after"
	// ReadinessFailsAfterAnnotation and LivenessFailsAfterAnnotation let these probes fail from then on.
	ReadinessFailsAfterAnnotation = "hollowfleet.io/readiness-fails-after"
	LivenessFailsAfterAnnotation  = "hollowfleet.io/liveness-fails-after"
	// TerminatesAfterAnnotation is how long a container takes to end when it is told to.
	TerminatesAfterAnnotation = "hollowfleet.io/terminates-after"
	// ImagePullFailsAnnotation with the value "true" lets every pull of an image of the pod fail.
	ImagePullFailsAnnotation = "hollowfleet.io/image-pull-fails"
)

// script is what the annotations of a pod say of its containers, by annotation; nil if they say nothing.
type script map[string]time.Duration

// scriptOf reads a pod's annotations.
func scriptOf(annotations map[string]string) (script, error) {
	var said script
	for _, name := range []string{
		StartedAfterAnnotation, ReadyAfterAnnotation, ReadinessFailsAfterAnnotation, LivenessFailsAfterAnnotation, TerminatesAfterAnnotation,
	} {
		text, ok := annotations[name]
		if !ok {
			continue
		}
		after, err := parseAfter(name, text)
		if err != nil {
			return nil, err
		}
		if said == nil {
			said = script{}
		}
		said[name] = after
	}
	if _, err := pullFails(annotations); err != nil {
		return nil, err
	}
	return said, nil
}

func parseAfter(name, text string) (time.Duration, error) {
	after, err := time.ParseDuration(text)
	if err != nil || after < 0 {
		return 0, fmt.Errorf("annotation %s: want a duration such as 30s, got %q", name, text)
	}
	return after, nil
}

// pullFails reports whether a pod's annotations let pulls of its images fail.
func pullFails(annotations map[string]string) (bool, error) {
	text, ok := annotations[ImagePullFailsAnnotation]
	if ok && text != "true" && text != "false" {
		return false, fmt.Errorf(`annotation %s: want "true" or "false", got %q`, ImagePullFailsAnnotation, text)
	}
	return text == "true", nil
}

// scriptFor narrows a pod's script to one of its containers.
func (s script) scriptFor(role Role) script {
	if role == MainContainer {
		return s
	}
	return nil
}
