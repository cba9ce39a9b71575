package disrupt

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// State is all that is wrong with a node at a time. The zero value is a node that is well.
type State struct {
	// NotReady is the run that lets the container runtime be down; empty if it is up.
	NotReady string
	// Absent is the run that keeps the node from joining; empty if it may join.
	Absent string
	// ShuttingDown is the run for which the machine shuts down; empty if it does not.
	ShuttingDown string
	// FrozenLease and FrozenStatus are the heartbeats that are not sent.
	FrozenLease, FrozenStatus bool
	// Pressure is what the node is short of.
	Pressure []corev1.NodeConditionType
	// Conditions are other conditions that the Node has. Type, Status, Reason and Message are set.
	Conditions []corev1.NodeCondition
	// API are the entries of SlowAPI and APIErrors, PodStarts those of PodStartDelay and PodStartFail.
	API, PodStarts []plan.Entry
	// Devices are the entries of DeviceFailure.
	Devices []plan.Entry
}

// stateOf is the state that faults make together for a process that started at that time. Kill and RestartKubelet are no states, and a
// Reboot is one only for a process that has started since. A process that started before a Shutdown did shuts down.
func stateOf(active []plan.Active, started time.Time) State {
	var s State
	for _, one := range active {
		if one.Entry.Fault.Type == plan.Shutdown && started.Before(one.Window.Start) {
			s.ShuttingDown = cmp.Or(s.ShuttingDown, one.Entry.Run)
			continue
		}
		s.addEntry(one)
	}
	slices.Sort(s.Pressure)
	s.Pressure = slices.Compact(s.Pressure)
	return s
}

func (s *State) addEntry(one plan.Active) {
	e := one.Entry
	switch fault := e.Fault; fault.Type {
	case plan.NotReady:
		s.NotReady = cmp.Or(s.NotReady, e.Run)
	case plan.Flap:
		if !one.Ready {
			s.NotReady = cmp.Or(s.NotReady, e.Run)
		}
	case plan.FreezeHeartbeat:
		lease, status := fault.Frozen()
		s.FrozenLease, s.FrozenStatus = s.FrozenLease || lease, s.FrozenStatus || status
	case plan.Pressure:
		for _, resource := range fault.Pressure.Resources {
			s.Pressure = append(s.Pressure, pressureConditions[resource])
		}
	case plan.Condition:
		s.addCondition(e.Run, fault.Condition)
	case plan.SlowAPI, plan.APIErrors:
		s.API = append(s.API, *e)
	case plan.PodStartDelay, plan.PodStartFail:
		s.PodStarts = append(s.PodStarts, *e)
	case plan.DeviceFailure:
		s.Devices = append(s.Devices, *e)
	case plan.NeverJoin, plan.Reboot, plan.Shutdown:
		s.Absent = cmp.Or(s.Absent, e.Run)
	case plan.Kill, plan.RestartKubelet:
	}
}

var pressureConditions = map[plan.PressureResource]corev1.NodeConditionType{
	plan.PressureMemory: corev1.NodeMemoryPressure,
	plan.PressureDisk:   corev1.NodeDiskPressure,
	plan.PressurePID:    corev1.NodePIDPressure,
}

// addCondition adds a condition. Of several of one type, the first one in the plan counts.
func (s *State) addCondition(run string, p *plan.ConditionParameters) {
	if slices.ContainsFunc(s.Conditions, func(c corev1.NodeCondition) bool { return c.Type == p.Type }) {
		return
	}
	s.Conditions = append(s.Conditions, corev1.NodeCondition{
		Type:    p.Type,
		Status:  cmp.Or(p.Status, corev1.ConditionTrue),
		Reason:  cmp.Or(p.Reason, plan.DefaultReason),
		Message: strings.TrimSpace(p.Message + " " + markStart + run + markEnd),
	})
}

// What the message of a condition ends with that a disruption has set.
const (
	markStart = "(disrupted by "
	markEnd   = ")"
)

// IsMarked reports whether a message is that of a condition which a disruption has set, in this process or an earlier one.
func IsMarked(message string) bool {
	begin := strings.LastIndex(message, markStart)
	return begin >= 0 && strings.HasSuffix(message, markEnd) && !strings.Contains(message[begin+len(markStart):len(message)-len(markEnd)], " ")
}
