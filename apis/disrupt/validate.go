package disrupt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	maxIndex        = 999
	maxReason       = 128
	maxMessage      = 512
	maxFlap         = 24 * time.Hour
	minFlap         = 15 * time.Second
	maxLatency      = 5 * time.Minute
	maxPodDelay     = time.Hour
	minStatusCode   = 500
	maxStatusCode   = 599
	maxDevices      = 128
	statusCodesHint = "401, 403, 429, or 500 to 599"
)

// kubeletConditions are written by each kubelet for its own Node.
var kubeletConditions = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable,
}

// Validate reports all that keeps p from being carried out.
func (p Plan) Validate() error {
	problems := []error{checkVersion(p.Version), checkCount(len(p.Entries))}
	type identity struct {
		uid   string
		index int32
	}
	first := map[identity]int{}
	for i := range p.Entries {
		e := &p.Entries[i]
		problems = append(problems, prefixErrors(fmt.Sprintf("entries[%d]", i), e.Validate()))
		same := identity{e.UID, e.Index}
		if earlier, ok := first[same]; ok {
			problems = append(problems, fmt.Errorf("entries[%d].index: %d is taken by entries[%d] of the same uid: number the faults of a run", i, e.Index, earlier))
			continue
		}
		first[same] = i
	}
	return errors.Join(problems...)
}

// Validate reports all that keeps e from being carried out.
func (e *Entry) Validate() error {
	var problems []error
	if faults := validation.IsDNS1123Subdomain(e.Run); len(faults) > 0 {
		problems = append(problems, fmt.Errorf("run: want the name of a NodeDisruptionRun: %s", strings.Join(faults, "; ")))
	}
	if faults := validation.IsValidLabelValue(e.UID); e.UID == "" || len(faults) > 0 {
		problems = append(problems, fmt.Errorf("uid: want the UID of a NodeDisruptionRun, got %q", shortenValue(e.UID)))
	}
	if e.Index < 0 || e.Index > maxIndex {
		problems = append(problems, fmt.Errorf("index: want a number from 0 to %d, got %d", maxIndex, e.Index))
	}
	problems = append(problems, prefixErrors("fault", e.Fault.Validate()), e.Timing.Validate())
	return errors.Join(problems...)
}

// Validate reports all that keeps t from being a series of windows with an end.
func (t Timing) Validate() error {
	problems := []error{
		t.validateLength(),
		checkBetween("healthyFor", t.HealthyFor.Duration, 0, MaxLength),
		checkBetween("jitter", t.Jitter.Duration, 0, MaxLength),
	}
	if t.UnhealthyFor.Duration != 0 {
		problems = append(problems, checkBetween("unhealthyFor", t.UnhealthyFor.Duration, MinUnhealthyFor, MaxLength))
	}
	if t.Repeat < 0 || t.Repeat > MaxRepeat {
		problems = append(problems, fmt.Errorf("repeat: want a number from 0 to %d, got %d", MaxRepeat, t.Repeat))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	switch once := t.UnhealthyFor.Duration == 0; {
	case once && t.Repeat > 1:
		return errors.New("repeat: without unhealthyFor there is one window, which lasts until the end: set unhealthyFor, or remove repeat")
	case !once && t.Repeat != 1 && t.Jitter.Duration > t.HealthyFor.Duration:
		return fmt.Errorf("jitter: %s are more than the %s of healthyFor, so that windows could overlap: shorten it, or set repeat to 1", t.Jitter.Duration, t.HealthyFor.Duration)
	case t.HealthyFor.Duration+t.Jitter.Duration >= t.End.Sub(t.Start.Time):
		return fmt.Errorf("healthyFor, jitter: the first window could start %s after start, which is not before the end: shorten them, or set a later end", t.HealthyFor.Duration+t.Jitter.Duration)
	}
	return nil
}

func (t Timing) validateLength() error {
	switch length := t.End.Sub(t.Start.Time); {
	case t.Start.IsZero():
		return errors.New("start: required, such as 2026-01-31T12:00:00Z")
	case t.End.IsZero():
		return fmt.Errorf("end: required, so that the node is healthy again whatever happens to its agent: set a time at most %s after start", MaxLength)
	case length <= 0 || length > MaxLength:
		return fmt.Errorf("end: want a time after start, and at most %s after it, got %s", MaxLength, length)
	case t.Start.Nanosecond() != 0 || t.End.Nanosecond() != 0:
		return errors.New("start, end: want whole seconds, because all else is lost on the way to the node: round them")
	}
	return nil
}

// Validate reports all that is wrong with f.
func (f *Fault) Validate() error {
	if !slices.Contains(FaultTypes, f.Type) {
		return fmt.Errorf("type: want one of %s, got %q", joinValues(FaultTypes), shortenValue(string(f.Type)))
	}
	var problems []error
	for _, member := range []struct {
		of       FaultType
		name     string
		set      bool
		required bool
		check    func() error
	}{
		{FreezeHeartbeat, "freezeHeartbeat", f.FreezeHeartbeat != nil, false, func() error { return f.FreezeHeartbeat.validate() }},
		{Flap, "flap", f.Flap != nil, true, func() error { return f.Flap.validate() }},
		{Pressure, "pressure", f.Pressure != nil, true, func() error { return f.Pressure.validate() }},
		{Condition, "condition", f.Condition != nil, true, func() error { return f.Condition.validate() }},
		{SlowAPI, "slowAPI", f.SlowAPI != nil, true, func() error { return f.SlowAPI.validate() }},
		{APIErrors, "apiErrors", f.APIErrors != nil, false, func() error { return f.APIErrors.validate() }},
		{PodStartDelay, "podStartDelay", f.PodStartDelay != nil, true, func() error { return f.PodStartDelay.validate() }},
		{PodStartFail, "podStartFail", f.PodStartFail != nil, false, func() error { return checkPercent(f.PodStartFail.Percent) }},
		{DeviceFailure, "deviceFailure", f.DeviceFailure != nil, false, func() error { return f.DeviceFailure.validate() }},
	} {
		switch mine := member.of == f.Type; {
		case mine && member.set:
			problems = append(problems, prefixErrors(member.name, member.check()))
		case mine && member.required:
			problems = append(problems, fmt.Errorf("%s: required for the type %s", member.name, f.Type))
		case member.set:
			problems = append(problems, fmt.Errorf("%s: has no meaning for the type %s: remove it", member.name, f.Type))
		}
	}
	return errors.Join(problems...)
}

func (p *FreezeHeartbeatParameters) validate() error {
	if p.Heartbeat == "" {
		return nil
	}
	return oneOf("heartbeat", p.Heartbeat, HeartbeatLease, HeartbeatStatus, HeartbeatBoth)
}

func (p *FlapParameters) validate() error {
	return errors.Join(
		checkBetween("notReadyFor", p.NotReadyFor.Duration, minFlap, maxFlap),
		checkBetween("readyFor", p.ReadyFor.Duration, minFlap, maxFlap))
}

func (p *PressureParameters) validate() error {
	if len(p.Resources) == 0 {
		return fmt.Errorf("resources: required, of %s, %s, %s", PressureMemory, PressureDisk, PressurePID)
	}
	return checkSet("resources", p.Resources, PressureMemory, PressureDisk, PressurePID)
}

func (p *ConditionParameters) validate() error {
	var problems []error
	if faults := validation.IsQualifiedName(string(p.Type)); len(faults) > 0 {
		problems = append(problems, fmt.Errorf("type: want one such as KernelDeadlock: %s", strings.Join(faults, "; ")))
	}
	if slices.Contains(kubeletConditions, p.Type) {
		problems = append(problems, fmt.Errorf("type: %s is the kubelet's own: use a fault of the type %s or %s", p.Type, NotReady, Pressure))
	}
	if p.Status != "" {
		problems = append(problems, oneOf("status", p.Status, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown))
	}
	if faults := validation.IsCIdentifier(p.Reason); p.Reason != "" && (len(faults) > 0 || len(p.Reason) > maxReason) {
		problems = append(problems, fmt.Errorf("reason: want a word such as KernelHung of at most %d bytes, got %q", maxReason, shortenValue(p.Reason)))
	}
	if len(p.Message) > maxMessage || !utf8.ValidString(p.Message) {
		problems = append(problems, fmt.Errorf("message: want a text of at most %d bytes, got %d", maxMessage, len(p.Message)))
	}
	return errors.Join(problems...)
}

func (p *SlowAPIParameters) validate() error {
	return errors.Join(
		checkBetween("latency", p.Latency.Duration, time.Millisecond, maxLatency),
		checkBetween("jitter", p.Jitter.Duration, 0, maxLatency),
		checkSet("clients", p.Clients, APIClients...))
}

func (p *APIErrorsParameters) validate() error {
	problems := []error{checkPercent(p.Percent), checkSet("clients", p.Clients, APIClients...)}
	switch code := p.StatusCode; {
	case code == 0, code == 401, code == 403, code == 429:
	case code < minStatusCode, code > maxStatusCode:
		problems = append(problems, fmt.Errorf("statusCode: want %s, got %d", statusCodesHint, code))
	}
	return errors.Join(problems...)
}

func (p *PodStartDelayParameters) validate() error {
	return errors.Join(
		checkBetween("delay", p.Delay.Duration, time.Millisecond, maxPodDelay),
		checkBetween("jitter", p.Jitter.Duration, 0, maxPodDelay))
}

func (p *DeviceFailureParameters) validate() error {
	var problems []error
	if p.Name != "" && !isResourceOrDriver(p.Name) {
		problems = append(problems, fmt.Errorf("name: want an extended resource such as example.com/gpu, or a DRA driver such as gpu.example.com, got %q",
			shortenValue(p.Name)))
	}
	if p.Count < 0 || p.Count > maxDevices {
		problems = append(problems, fmt.Errorf("count: want a number from 1 to %d, got %d", maxDevices, p.Count))
	}
	if p.Effect != "" && p.Effect != resourcev1.DeviceTaintEffectNoSchedule && p.Effect != resourcev1.DeviceTaintEffectNoExecute {
		problems = append(problems, fmt.Errorf("effect: want NoSchedule or NoExecute, got %q", shortenValue(string(p.Effect))))
	}
	return errors.Join(problems...)
}

func isResourceOrDriver(name string) bool {
	if strings.Contains(name, "/") {
		return len(validation.IsQualifiedName(name)) == 0
	}
	return strings.Contains(name, ".") && len(validation.IsDNS1123Subdomain(name)) == 0
}

// prefixErrors puts the path of a struct in front of each of its problems.
func prefixErrors(path string, err error) error {
	if err == nil {
		return nil
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []error
		for _, one := range several.Unwrap() {
			problems = append(problems, prefixErrors(path, one))
		}
		return errors.Join(problems...)
	}
	return fmt.Errorf("%s.%w", path, err)
}

func checkBetween(field string, value, low, high time.Duration) error {
	if value < low || value > high {
		return fmt.Errorf("%s: want a duration from %s to %s, got %s", field, low, high, value)
	}
	return nil
}

// checkPercent accepts 0, which means all.
func checkPercent(value int32) error {
	if value < 0 || value > DefaultPercent {
		return fmt.Errorf("percent: want a number from 1 to %d, got %d", DefaultPercent, value)
	}
	return nil
}

func oneOf[T ~string](field string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: want one of %s, got %q", field, joinValues(allowed), shortenValue(string(value)))
}

func checkSet[T ~string](field string, values []T, allowed ...T) error {
	var problems []error
	for i, value := range values {
		problems = append(problems, oneOf(fmt.Sprintf("%s[%d]", field, i), value, allowed...))
		if slices.Contains(values[:i], value) {
			problems = append(problems, fmt.Errorf("%s[%d]: %s is there twice: remove one", field, i, value))
			break
		}
	}
	return errors.Join(problems...)
}

func joinValues[T ~string](values []T) string {
	names := make([]string, len(values))
	for i, value := range values {
		names[i] = string(value)
	}
	return strings.Join(names, ", ")
}

// shortenValue is a value as it stands in a message.
func shortenValue(text string) string {
	const limit = 64
	if len(text) > limit {
		return text[:limit] + "…"
	}
	return text
}
