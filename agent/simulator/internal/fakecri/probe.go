package fakecri

import (
	"errors"
	"time"

	utilexec "k8s.io/utils/exec"
)

// Probe is a kind of probe.
type Probe string

// The kinds of probes.
const (
	StartupProbe   Probe = "startup"
	ReadinessProbe Probe = "readiness"
	LivenessProbe  Probe = "liveness"
)

// probeProgram is the program of a probe's command. Programs of real containers have no such name.
const probeProgram = "hollowfleet.io/probe"

// Command is what ExecSync takes for a probe of this kind: it succeeds or fails as the pod's annotations say.
func (p Probe) Command() []string { return []string{probeProgram, string(p)} }

// probeOf returns the probe that a command is, if it is one.
func probeOf(command []string) (Probe, bool) {
	if len(command) != 2 || command[0] != probeProgram {
		return "", false
	}
	return Probe(command[1]), true
}

// probeResult is what a probe of a container that has run for so long prints, and the error with which it fails.
func (p Probe) probeResult(said script, running time.Duration) ([]byte, error) {
	cause := p.failingAnnotation(said, running)
	if cause == "" {
		return nil, nil
	}
	failed := utilexec.CodeExitError{Err: errors.New("the probe fails by annotation " + cause), Code: 1}
	return []byte("scripted by annotation " + cause), failed
}

// failingAnnotation is the annotation by which the probe fails; empty if it succeeds.
func (p Probe) failingAnnotation(said script, running time.Duration) string {
	before := func(name string) bool { after, ok := said[name]; return ok && running < after }
	since := func(name string) bool { after, ok := said[name]; return ok && running >= after }
	switch {
	case p == StartupProbe && before(StartedAfterAnnotation):
		return StartedAfterAnnotation
	case p == ReadinessProbe && before(ReadyAfterAnnotation):
		return ReadyAfterAnnotation
	case p == ReadinessProbe && since(ReadinessFailsAfterAnnotation):
		return ReadinessFailsAfterAnnotation
	case p == LivenessProbe && since(LivenessFailsAfterAnnotation):
		return LivenessFailsAfterAnnotation
	}
	return ""
}
