package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func bounds(maxUnhealthy, maxInFlight string) v1alpha1.Remediation {
	unhealthy, inFlight := intstr.Parse(maxUnhealthy), intstr.Parse(maxInFlight)
	return v1alpha1.Remediation{MaxUnhealthy: &unhealthy, MaxInFlight: &inFlight}
}

// set makes Machines called a, b, c, … with these flags each.
func set(flags ...string) []Machine {
	var machines []Machine
	for i, flag := range flags {
		name := string(rune('a' + i))
		switch flag {
		case "":
			machines = append(machines, machine(name, time.Duration(i)))
		case "going":
			machines = append(machines, machine(name, time.Duration(i), "timed out", "remediated", "deleting"))
		default:
			machines = append(machines, machine(name, time.Duration(i), flag))
		}
	}
	return machines
}

func TestReplacesFailedMachines(t *testing.T) {
	tests := map[string]struct {
		in   Input
		want []string
	}{
		"none when all are well":    {Input{Machines: set("", "", "")}, nil},
		"the one that failed":       {Input{Machines: set("", "timed out", "")}, []string{"b"}},
		"one at a time by default":  {Input{Machines: set("timed out", "timed out", "", "", "")}, []string{"a"}},
		"as many as may be at once": {Input{Machines: set("timed out", "timed out", "timed out", ""), Remediation: bounds("100%", "2")}, []string{"a", "b"}},
		"at least one of a percentage, which is rounded up": {
			Input{Machines: set("timed out", "timed out", ""), Remediation: bounds("100%", "1%")}, []string{"a"},
		},
		"none while one is in flight":                    {Input{Machines: set("timed out", "going", "", "", "")}, nil},
		"none while a replacement comes up":              {Input{Machines: set("timed out", "replacement", "", "", "")}, nil},
		"none while another set has one in flight":       {Input{Elsewhere: 1, Machines: set("timed out", "", "", "", "")}, nil},
		"as many as another set leaves":                  {Input{Elsewhere: 1, Machines: set("timed out", "timed out", "", "", ""), Remediation: bounds("100%", "2")}, []string{"a"}},
		"one although other Machines come up":            {Input{Machines: set("timed out", "notready", "notready", "notready", "")}, []string{"a"}},
		"one although a user deletes others":             {Input{Machines: set("timed out", "deleting", "deleting", "", "")}, []string{"a"}},
		"none while one is missing":                      {Input{Replicas: 6, Machines: set("timed out", "", "", "", "")}, nil},
		"none above maxUnhealthy":                        {Input{Machines: set("timed out", "timed out", "timed out", "", "")}, nil},
		"none above maxUnhealthy, those on the way too":  {Input{Machines: set("timed out", "unhealthy", "going", "", ""), Remediation: bounds("2", "9")}, nil},
		"one at exactly maxUnhealthy":                    {Input{Machines: set("timed out", "unhealthy", "", "", "")}, []string{"a"}},
		"none with maxUnhealthy 0":                       {Input{Machines: set("timed out", "", ""), Remediation: bounds("0", "1")}, nil},
		"not one whose error the next would have too":    {Input{Machines: set("failed", "", "")}, nil},
		"not one that is unhealthy and has not failed":   {Input{Machines: set("unhealthy", "", "")}, nil},
		"the marked one first":                           {Input{Machines: []Machine{machine("a", 0, "timed out"), machine("b", 1, "timed out", "marked"), machine("c", 2), machine("d", 2), machine("e", 2)}}, []string{"b"}},
		"none of a set that also has too many: they go":  {Input{Replicas: 2, Machines: set("timed out", "", "", "", "")}, nil},
		"none while frozen":                              {Input{Frozen: true, Machines: set("timed out", "", "")}, nil},
		"none while the agent is not connected":          {Input{Machines: set("timed out", "", "")}, nil},
		"none while machines are moved between sets":     {Input{Transferring: true, Machines: set("timed out", "", "")}, nil},
		"none of another set":                            {Input{Replicas: 2, Machines: []Machine{machine("a", 0, "timed out", "foreign"), machine("b", 0), machine("c", 0)}}, nil},
		"counting no Machine of another set":             {Input{Replicas: 3, Machines: append(set("timed out", "", ""), machine("x", 0, "timed out", "foreign"), machine("y", 0, "timed out", "foreign"))}, []string{"a"}},
		"none with bounds that admission would refuse":   {Input{Machines: set("timed out", "", ""), Remediation: bounds("many", "1")}, nil},
		"none of which the last creation was refused":    {Input{Replicas: 4, NoCreation: "refused", Machines: set("timed out", "", "")}, nil},
		"one that is marked as replaced and was not yet": {Input{Machines: []Machine{machine("a", 0, "timed out", "remediated"), machine("b", 0), machine("c", 0)}}, []string{"a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := test.in
			in.Now, in.Connected = start, name != "none while the agent is not connected"
			if in.Replicas == 0 {
				in.Replicas = len(in.Machines)
			}
			var got []string
			for _, victim := range Decide(in).Replace {
				got = append(got, victim.Name)
				if victim.Why != victim.Reason {
					t.Errorf("%s is replaced because it is %q, want %q", victim.Name, victim.Why, victim.Reason)
				}
			}
			check(t, "replaces", got, test.want)
		})
	}
}

// clinic simulates one set whose Machines fall ill, with what the controller remembers of it.
type clinic struct {
	in                        Input
	known                     Replacements
	next                      int
	maxUnhealthy, maxInFlight int
}

func newClinic(t *rapid.T) *clinic {
	c := &clinic{in: Input{Now: start, Replicas: rapid.IntRange(1, 10).Draw(t, "replicas"), Connected: true}}
	percent := func(name string, least int) intstr.IntOrString {
		if rapid.Bool().Draw(t, name+" in percent") {
			return intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(least, 100).Draw(t, name)))
		}
		return intstr.FromInt32(rapid.Int32Range(int32(least), 6).Draw(t, name))
	}
	unhealthy, inFlight := percent("maxUnhealthy", 0), percent("maxInFlight", 1)
	c.in.Remediation = v1alpha1.Remediation{MaxUnhealthy: &unhealthy, MaxInFlight: &inFlight}
	c.maxUnhealthy, c.maxInFlight = c.in.Remediation.Limits(c.in.Replicas)
	return c
}

// reconcile carries out what the planner says, and holds it against the bounds.
func (c *clinic) reconcile(t *rapid.T) bool {
	missing := max(c.in.Replicas-len(c.in.Machines), 0)
	c.known.Note(c.in.Machines, missing, 0)
	p := Decide(c.in)
	if len(p.Replace) > 0 && len(Unhealthy(c.in.Machines)) > c.maxUnhealthy {
		t.Fatalf("replaces %d of %d unhealthy machines, more than %d", len(p.Replace), len(Unhealthy(c.in.Machines)), c.maxUnhealthy)
	}
	for _, victim := range p.Replace {
		m := c.at(victim.UID)
		if !m.Failed || !m.Replaceable || m.Deleting {
			t.Fatalf("replaces %+v", m)
		}
		m.Remediated, m.Deleting = true, true
	}
	for _, victim := range p.Delete {
		c.at(victim.UID).Deleting = true
	}
	owed := len(c.known.Owed())
	for i := range p.Create {
		c.next++
		name := fmt.Sprintf("m%03d", c.next)
		c.in.Machines = append(c.in.Machines, Machine{
			Name: name, UID: types.UID(name), Created: start.Add(time.Duration(c.next)), Owned: true, Matches: true, Replacement: i < owed,
		})
	}
	c.known.Made(p.Create)
	if n := c.inReplacement(); n > c.maxInFlight {
		t.Fatalf("%d machines are in replacement, more than %d: %+v", n, c.maxInFlight, c.in.Machines)
	}
	if len(c.in.Machines) > c.in.Replicas && p.Create > 0 {
		t.Fatalf("%d machines for %d replicas", len(c.in.Machines), c.in.Replicas)
	}
	return !p.Empty()
}

func (c *clinic) at(uid types.UID) *Machine {
	return &c.in.Machines[slices.IndexFunc(c.in.Machines, func(m Machine) bool { return m.UID == uid })]
}

// inReplacement counts by what really happened, and not by what the controller remembers.
func (c *clinic) inReplacement() int {
	n := len(c.known.Owed())
	for _, m := range c.in.Machines {
		if m.Remediated && m.Deleting || m.Replacement && !m.Deleting {
			n++
		}
	}
	return n
}

// happen lets something happen to one Machine: it comes up, falls ill or fails, is deleted by a user, or goes.
func (c *clinic) happen(t *rapid.T, mayFail bool) bool {
	var places []int
	for i, m := range c.in.Machines {
		if m.Deleting || !m.Ready && !m.Failed || mayFail {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return false
	}
	i := rapid.SampledFrom(places).Draw(t, "machine")
	m := &c.in.Machines[i]
	what := 0
	if mayFail {
		what = rapid.IntRange(0, 4).Draw(t, "what")
	}
	switch {
	case m.Deleting:
		c.in.Machines = slices.Delete(c.in.Machines, i, i+1)
	case what == 1:
		m.Deleting = true
	case what == 2 && m.Ready:
		m.Unhealthy, m.Ready, m.Available = true, false, false
	case what >= 3:
		m.Failed, m.Replaceable, m.Unhealthy, m.Ready, m.Available, m.Replacement = true, what == 3, true, false, false, false
	case !m.Failed:
		m.Ready, m.Available, m.Unhealthy, m.Replacement = true, true, false, false
	}
	return true
}

func TestRemediationStaysWithinItsBoundsAndConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClinic(t)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "reconcile") {
				c.reconcile(t)
			} else {
				c.happen(t, true)
			}
		}
		for range 200 { // From here on no more Machine falls ill.
			if !c.reconcile(t) && !c.happen(t, false) {
				break
			}
		}
		unhealthy := Unhealthy(c.in.Machines)
		if len(c.in.Machines) != c.in.Replicas {
			t.Fatalf("ended with %d machines for %d replicas", len(c.in.Machines), c.in.Replicas)
		}
		for _, m := range unhealthy {
			if m.Replaceable && len(unhealthy) <= c.maxUnhealthy {
				t.Fatalf("left %s unhealthy, one of %d with a bound of %d", m.Name, len(unhealthy), c.maxUnhealthy)
			}
		}
	})
}

// What users delete, and what comes up for other reasons, takes nothing away from remediation.
func TestOthersDeletionsDoNotEatTheBudgetOfRemediation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var machines []Machine
		failed := rapid.IntRange(1, 4).Draw(t, "failed")
		for i := range failed {
			machines = append(machines, machine(fmt.Sprintf("failed-%d", i), 0, "timed out"))
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "deleted by users") {
			machines = append(machines, machine(fmt.Sprintf("deleted-%d", i), 0, "deleting"))
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "coming up") {
			machines = append(machines, machine(fmt.Sprintf("new-%d", i), 0, "notready"))
		}
		inFlight := rapid.IntRange(1, 5).Draw(t, "maxInFlight")
		p := Decide(Input{
			Now: start, Connected: true, Replicas: len(machines), Machines: shuffled(t, machines),
			Remediation: bounds("100%", fmt.Sprint(inFlight)),
		})
		if want := min(failed, inFlight); len(p.Replace) != want {
			t.Fatalf("replaces %d, want %d", len(p.Replace), want)
		}
	})
}

func TestAHubThatStartsAnewTakesWhatHasVanishedForReplaced(t *testing.T) {
	var known Replacements
	known.Note(nil, 2, 3)
	check(t, "owes", known.Owed(), []string{"", ""})
	known.Note(nil, 2, 3)
	check(t, "later owes", known.Owed(), []string{"", ""})
	known.Made(2)
	check(t, "owes when made", known.Owed(), nil)

	known = Replacements{}
	known.Note(set("going", ""), 0, 0)
	known.Note(set("")[:0], 2, 0)
	check(t, "owes", known.Owed(), []string{"a"})
	known.Note(set("", ""), 0, 0)
	check(t, "owes a set that was scaled down", known.Owed(), nil)
}
