// Package report judges a rehearsal: from the course of an upgrade it makes the findings and the verdict that a user reads.
package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

// What a report in JSON starts with. Fields may be added; none changes its meaning.
const (
	APIVersion = "rehearsal.hollowfleet.io/v1"
	Kind       = "Rehearsal"
)

// Verdict is what a rehearsal came to.
type Verdict string

// The verdicts.
const (
	// Passed: every drain ended well, and every pod that had a Node before has one after.
	Passed Verdict = "Passed"
	// Failed: the upgrade would not go well. Findings say why.
	Failed Verdict = "Failed"
	// Incomplete: the rehearsal did not come to its end.
	Incomplete Verdict = "Incomplete"
)

// Report is all that there is to say about a rehearsal.
type Report struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Name       string       `json:"name"`
	Verdict    Verdict      `json:"verdict"`
	Message    string       `json:"message"`
	Start      *metav1.Time `json:"start,omitempty"`
	End        *metav1.Time `json:"end,omitempty"`

	Source   Source         `json:"source"`
	Versions shape.Versions `json:"versions"`
	Strategy Strategy       `json:"strategy"`
	Groups   []shape.Group  `json:"groups"`
	// Kubelets are those that the Nodes had.
	Kubelets []observe.Kubelet `json:"kubelets,omitempty"`

	// Findings are why the verdict is Failed.
	Findings []string `json:"findings,omitempty"`
	Phases   []Phase  `json:"phases,omitempty"`
	// Outage is how long the API server has not answered, all times together.
	Outage metav1.Duration     `json:"apiServerOutage"`
	Skew   []shape.SkewProblem `json:"skew,omitempty"`
	Drains []Drain             `json:"drains,omitempty"`
	// Budgets are those that have held up drains, the longest first.
	Budgets []Budget `json:"budgets,omitempty"`
	// NotScheduledBefore had no Node before the upgrade, NotScheduledAfter after it.
	NotScheduledBefore []observe.Unscheduled `json:"notScheduledBefore,omitempty"`
	NotScheduledAfter  []observe.Unscheduled `json:"notScheduledAfter,omitempty"`
	// Workloads had fewer Ready pods than before at times.
	Workloads []Dip `json:"workloads,omitempty"`
	// Differences from the real cluster, and what no rehearsal can know.
	Differences []string `json:"differences,omitempty"`
	Unknown     []string `json:"unknown"`
}

// Source is what was rehearsed.
type Source struct {
	Taken        *metav1.Time `json:"taken,omitempty"`
	ControlPlane string       `json:"controlPlane"`
	Nodes        int          `json:"nodes"`
	Workloads    int          `json:"workloads"`
	// Pods were Ready in the cluster when the inventory was taken, RehearsedPods are Ready in the rehearsal before its upgrade.
	Pods          int `json:"pods"`
	RehearsedPods int `json:"rehearsedPods"`
	Budgets       int `json:"podDisruptionBudgets"`
}

// Strategy is how the Nodes are upgraded.
type Strategy struct {
	Type           string          `json:"type"`
	MaxSurge       string          `json:"maxSurge,omitempty"`
	MaxUnavailable string          `json:"maxUnavailable"`
	DrainTimeout   metav1.Duration `json:"nodeDrainTimeout"`
	Order          shape.Order     `json:"order"`
}

// Phase is a step with how long it took.
type Phase struct {
	Name     string          `json:"name"`
	Start    metav1.Time     `json:"start"`
	Duration metav1.Duration `json:"duration"`
	// Failure is why it did not come to its end.
	Failure string `json:"failure,omitempty"`
}

// Drain is the drain of a Node.
type Drain struct {
	Node  string `json:"node"`
	Group string `json:"group"`
	// After is how long after the beginning of the rehearsal it started.
	After    metav1.Duration `json:"after"`
	Duration metav1.Duration `json:"duration"`
	Outcome  observe.Outcome `json:"outcome"`
	Message  string          `json:"message,omitempty"`
	// Leaving is how long pods were on their way out.
	Leaving metav1.Duration `json:"podsLeaving"`
	Blocks  []Block         `json:"blockedBy,omitempty"`
}

// Block is how long a budget has held up a drain, and how many pods it has held at most.
type Block struct {
	Budget   string          `json:"budget"`
	Duration metav1.Duration `json:"duration"`
	Pods     int             `json:"pods"`
}

// Budget is what a PodDisruptionBudget has held up, all drains together.
type Budget struct {
	Name     string          `json:"name"`
	Drains   int             `json:"drains"`
	Longest  metav1.Duration `json:"longest"`
	Total    metav1.Duration `json:"total"`
	TimedOut int             `json:"drainsTimedOut"`
	// Never says why it allows no eviction at all.
	Never string `json:"never,omitempty"`
}

// Dip is how few Ready pods a workload had.
type Dip struct {
	Workload string          `json:"workload"`
	Want     int             `json:"readyBefore"`
	Lowest   int             `json:"lowest"`
	Missing  metav1.Duration `json:"fewerFor"`
	None     metav1.Duration `json:"noneFor"`
}

// Course is what a rehearsal has gone through.
type Course struct {
	Phases         []Phase
	Timeline       *observe.Timeline
	Before, After  []observe.Unscheduled
	Skew           []shape.SkewProblem
	RehearsalStart time.Time
	// ReadyInSource and ReadyBefore are how many Ready pods each workload has in the cluster, and in the rehearsal before its upgrade.
	ReadyInSource, ReadyBefore map[string]int
	// Failure is why it did not come to its end; empty if it did.
	Failure string
}

// Unknown is what no rehearsal knows.
var Unknown = []string{
	"how long images take to be pulled and containers to start and become Ready: give --pod-ready-after what your pods take",
	"what containers do when they are told to end: pods take a share of their grace period (--termination-percent)",
	"volumes: PersistentVolumeClaims, their zones and how long they take to be detached and attached",
	"admission webhooks, operators and controllers of your own, and autoscalers: they are not there",
	"how long your provider takes to make, boot and remove a machine",
	"how long your control plane takes to be upgraded, and whether clients use APIs that the new version has removed",
}

// Judge completes a report with what the rehearsal has gone through.
func (r *Report) Judge(c *Course) {
	r.APIVersion, r.Kind, r.Unknown = APIVersion, Kind, Unknown
	r.Phases, r.Skew, r.NotScheduledBefore, r.NotScheduledAfter = c.Phases, c.Skew, c.Before, c.After
	for _, problem := range c.Skew {
		r.Findings = append(r.Findings, fmt.Sprintf("skew policy, after step %q: %s (%s): %s: %s", problem.Step, problem.Group, plural.Count(problem.Nodes, "Node"), problem.Problem, problem.Remedy))
	}
	if c.Timeline != nil {
		r.addTimeline(c)
	}
	for _, one := range newlyUnscheduled(c.Before, c.After) {
		r.Findings = append(r.Findings, fmt.Sprintf("%s of %s not scheduled after the upgrade: %s", plural.Count(one.Pods, "pod"), one.Workload, cmp.Or(one.Reason, "the scheduler has not said why")))
	}
	for _, one := range c.Before {
		if c.ReadyInSource[one.Workload] > c.ReadyBefore[one.Workload] {
			r.Findings = append(r.Findings, fmt.Sprintf("%s has %d of the %d Ready pods of the cluster even before the upgrade, so that this says little about it: %s",
				one.Workload, c.ReadyBefore[one.Workload], c.ReadyInSource[one.Workload], cmp.Or(one.Reason, "the scheduler has not said why")))
		}
	}
	switch {
	case c.Failure != "" && len(r.Findings) == 0:
		r.Verdict, r.Message = Incomplete, c.Failure
	case c.Failure != "":
		r.Verdict, r.Message = Failed, c.Failure
	case len(r.Findings) > 0:
		r.Verdict, r.Message = Failed, plural.Count(len(r.Findings), "finding")+", see below"
	default:
		r.Verdict, r.Message = Passed, fmt.Sprintf("%s of %s ended within %s, and every pod has a Node again", plural.Count(len(r.Drains), "drain"), plural.Count(r.Source.Nodes, "Node"), r.Strategy.DrainTimeout.Duration)
		if len(r.Drains) == 0 {
			r.Message = "no Node was drained, and every pod has a Node"
		}
	}
}

func (r *Report) addTimeline(c *Course) {
	for _, outage := range c.Timeline.Outages {
		r.Outage.Duration += outage.End.Sub(outage.Start)
	}
	r.Outage = roundDuration(r.Outage.Duration)
	budgets := map[string]*Budget{}
	for _, one := range c.Timeline.Drains {
		drain := Drain{
			Node: one.Node, Group: one.Group, After: roundDuration(one.Start.Sub(c.RehearsalStart)), Duration: roundDuration(one.End.Sub(one.Start)),
			Outcome: one.Outcome, Message: one.Message, Leaving: roundDuration(one.Leaving),
		}
		for _, name := range slices.Sorted(maps.Keys(one.Blocked)) {
			drain.Blocks = append(drain.Blocks, Block{name, roundDuration(one.Blocked[name]), one.Refused[name]})
			countBudget(budgets, name, one, c.Timeline.Never[name])
		}
		slices.SortStableFunc(drain.Blocks, func(a, b Block) int { return cmp.Compare(b.Duration.Duration, a.Duration.Duration) })
		r.Drains = append(r.Drains, drain)
		if one.Outcome != observe.Drained {
			r.Findings = append(r.Findings, explainDrain(&drain))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		one := budgets[name]
		one.Total, one.Longest = roundDuration(one.Total.Duration), roundDuration(one.Longest.Duration)
		r.Budgets = append(r.Budgets, *one)
	}
	slices.SortStableFunc(r.Budgets, func(a, b Budget) int { return cmp.Compare(b.Total.Duration, a.Total.Duration) })
	r.addKubelets(c.Timeline.ListKubelets())
	for _, dip := range c.Timeline.ListDips() {
		r.Workloads = append(r.Workloads, Dip{dip.Workload, dip.Want, dip.Lowest, roundDuration(dip.Missing), roundDuration(dip.None)})
	}
}

// addKubelets says which kubelets the Nodes had, and of which the version was only a name.
func (r *Report) addKubelets(kubelets []observe.Kubelet) {
	r.Kubelets = kubelets
	for _, one := range kubelets {
		if !one.IsCode() {
			r.Differences = append(r.Differences, fmt.Sprintf("kubelets of version %s only reported that version and ran the code of %s: run make build-simulator MINORS=%s and rehearse again",
				one.Version, one.Code, hollownode.MinorOf(one.Version)))
		}
	}
}

func countBudget(budgets map[string]*Budget, name string, drain *observe.Drain, never string) {
	one := budgets[name]
	if one == nil {
		one = &Budget{Name: name, Never: never}
		budgets[name] = one
	}
	one.Drains++
	one.Total.Duration += drain.Blocked[name]
	one.Longest.Duration = max(one.Longest.Duration, drain.Blocked[name])
	if drain.Outcome != observe.Drained {
		one.TimedOut++
	}
}

func explainDrain(d *Drain) string {
	how := "timed out"
	if d.Outcome == observe.Unfinished {
		how = "did not end"
	}
	text := fmt.Sprintf("the drain of Node %s (%s) %s after %s", d.Node, d.Group, how, d.Duration.Duration)
	if len(d.Blocks) > 0 {
		text += fmt.Sprintf(", of which PodDisruptionBudget %s held it for %s", d.Blocks[0].Budget, d.Blocks[0].Duration.Duration)
	}
	if d.Message != "" {
		text += ": " + d.Message
	}
	return text
}

// newlyUnscheduled are those of after that are more than before.
func newlyUnscheduled(before, after []observe.Unscheduled) (more []observe.Unscheduled) {
	had := map[string]int{}
	for _, one := range before {
		had[one.Workload] = one.Pods
	}
	for _, one := range after {
		if one.Pods -= had[one.Workload]; one.Pods > 0 {
			more = append(more, one)
		}
	}
	return more
}

// precision is that of all times. What is observed by asking the API server is exact to half a second.
const precision = 100 * time.Millisecond

func roundDuration(d time.Duration) metav1.Duration {
	return metav1.Duration{Duration: max(d, 0).Round(precision)}
}
