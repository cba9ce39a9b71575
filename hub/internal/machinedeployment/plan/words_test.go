package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// set makes a MachineSet whose Machines are all there: active of them, of which available, the last ones.
func set(name string, replicas, active, available int) Set {
	s := Set{Name: name, Created: start, Replicas: replicas, Priority: v1alpha1.DefaultDeletionPriority}
	for i := range active {
		ok := i >= active-available
		s.Machines = append(s.Machines, Machine{
			Name: fmt.Sprintf("%s-%d", name, i), Created: start.Add(time.Duration(i)), Ready: ok, Available: ok,
			Priority: v1alpha1.DefaultDeletionPriority,
		})
	}
	return s
}

// with changes the n Machines that were made last.
func (s Set) with(n int, change func(*Machine)) Set {
	s.Machines = slices.Clone(s.Machines)
	for i := len(s.Machines) - n; i < len(s.Machines); i++ {
		change(&s.Machines[i])
	}
	return s
}

// deleting adds n Machines that are being deleted.
func (s Set) deleting(n int) Set {
	s.Machines = slices.Clone(s.Machines)
	for i := range n {
		s.Machines = append(s.Machines, Machine{Name: fmt.Sprintf("%s-gone-%d", s.Name, i), Deleting: true})
	}
	return s
}

func (s Set) marked(n int) Set { return s.with(n, func(m *Machine) { m.Marked = true }) }

func (s Set) priority(n, priority int) Set {
	return s.with(n, func(m *Machine) { m.Priority = priority })
}

func (s Set) requested(n int) Set { return s.with(n, func(m *Machine) { m.Requested = true }) }

// updating lets n Machines be amid an update in place that stands at reason; their Nodes still serve.
func (s Set) updating(n int, reason string) Set {
	return s.with(n, func(m *Machine) { m.Update, m.Ready, m.Available = reason, true, false })
}

func (s Set) created(after time.Duration) Set {
	s.Created = start.Add(after)
	return s
}

func (s Set) unseen() Set {
	s.Unseen = true
	return s
}

func (s Set) refused() Set {
	s.Refused = true
	return s
}

func (s Set) sizedFor(n int) Set {
	s.SizedFor = &n
	return s
}

func (s Set) locked() Set {
	s.Locked = true
	return s
}

func rolling(surge, unavailable string) v1alpha1.MachineDeploymentStrategy {
	a, b := intstr.Parse(surge), intstr.Parse(unavailable)
	return v1alpha1.MachineDeploymentStrategy{
		Type:          v1alpha1.RollingUpdate,
		RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: &a, MaxUnavailable: &b},
	}
}

func inPlace(unavailable string) v1alpha1.MachineDeploymentStrategy {
	value := intstr.Parse(unavailable)
	return v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{MaxUnavailable: &value}}
}

var (
	manual = v1alpha1.MachineDeploymentStrategy{
		Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{Trigger: v1alpha1.InPlaceManual},
	}
	recreate = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate}
	onDelete = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete}
)

// describe writes a plan as "create 2, old 3→2".
func describe(p Plan) string {
	var parts []string
	if p.CreateNew {
		parts = append(parts, fmt.Sprintf("create %d", p.NewReplicas))
	}
	for _, scale := range p.Scale {
		parts = append(parts, fmt.Sprintf("%s %d→%d", scale.Name, scale.From, scale.To))
	}
	for _, settle := range p.Settle {
		parts = append(parts, fmt.Sprintf("unlock %s %d→%d", settle.Name, settle.From, settle.To))
	}
	for _, pick := range p.Move {
		parts = append(parts, "move "+pick.Name)
	}
	for _, pick := range p.Replace {
		parts = append(parts, "replace "+pick.Name)
	}
	if p.Remove != nil {
		parts = append(parts, "remove "+p.Remove.Name)
	}
	return strings.Join(parts, ", ")
}

func current(replicas, active, available int) *Set {
	s := set("new", replicas, active, available)
	return &s
}

// updating is a new set of n Machines whose update stands at reason.
func updating(n int, reason string) *Set {
	s := set("new", n, n, n).updating(n, reason)
	return &s
}

func lockedNew(replicas, active, available int) *Set {
	s := set("new", replicas, active, available).locked()
	return &s
}

func (s Set) sizedForPointer(n int) *Set {
	s = s.sizedFor(n)
	return &s
}
