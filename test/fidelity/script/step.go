// Package script is one script of node and pod events for a real node and a hollow one, and the comparison of what they make of it. Each
// row of docs/fidelity.md has a step.
package script

import (
	"context"
	"time"
)

// Verdict is what a row of docs/fidelity.md says about a behaviour.
type Verdict string

const (
	// Same: the kubelet's code does it.
	Same Verdict = "same"
	// Adjustable: a setting decides. The script runs with settings that make it as on the real node.
	Adjustable Verdict = "adjustable"
	// Absent by choice, for a reason that the row gives.
	Absent Verdict = "absent"
)

// Step is one line of the script.
type Step struct {
	Name string
	// Row is the first column of the row of docs/fidelity.md that the step stands for, and Verdict is that row's.
	Row     string
	Verdict Verdict
	// NotRun says why the step cannot be run on both nodes. Then Run is nil.
	NotRun string
	// Alone: the step breaks the node, so that no other runs meanwhile. Such steps are last, in their order.
	Alone bool
	Run   func(context.Context, *Side, *Record) error
	// Declared are the differences that are known. One that does not show is a difference too.
	Declared []Declared
	// Repeats are sequences that go through the same states again and again. Of these, which states come is compared, and not how often or
	// which is seen first: that is a matter of time.
	Repeats []string
	// Tolerances are by the names of times. Default: defaultTolerance.
	Tolerances map[string]Tolerance
}

// Declared is a difference that is known.
type Declared struct {
	// Figure is the name of a fact, a sequence, a time or an order.
	Figure string
	// Because is the reason.
	Because string
	// NotOfNode: not the hollow node makes the difference, but what breaks both nodes, or how their clusters are configured.
	NotOfNode bool
	// Sometimes: what the machine does meanwhile decides whether the difference shows. If it does not, that is no difference.
	Sometimes bool
}

// firstState is the figure that a hollow node has not shown the first state of a sequence.
func firstState(sequence string) string { return sequence + ", first state" }

// becauseFast is why a hollow node may not show a first state. It is declared for all steps.
const becauseFast = "a kubelet writes the status that it has when it comes to that, and a container of a hollow node may run by then"

// Tolerance is by how much a time may differ: Absolute, plus Percent of the longer one.
type Tolerance struct {
	Absolute time.Duration
	Percent  int
}

// defaultTolerance is for what a kubelet does at once: its loops have periods of one or two seconds, and other steps run meanwhile.
var defaultTolerance = Tolerance{Absolute: 3 * time.Second, Percent: 20}

func (t Tolerance) allows(a, b time.Duration) bool {
	return (a - b).Abs() <= t.Absolute+max(a, b)*time.Duration(t.Percent)/100
}
