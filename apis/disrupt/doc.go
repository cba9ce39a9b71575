// Package disrupt is the contract by which nodes are made to fail: which faults there are, which nodes are chosen, when
// each fault starts and ends, and the plan that carries this to a hollow node. It is pure: it reads no clock and no file,
// so that hub, agent, command line and hollow node compute the same from the same input.
//
// The agent writes a Plan as one annotation, Annotation, of a hollow-node's pod; the hollow node reads it from a file of
// a downward API volume and carries it out by its own clock. Nothing has to be reachable for a fault to end: each entry of
// a plan has an end, and whatever is not in the plan does not happen.
//
// An agent makes a plan of what a run says, and asks At what is under way:
//
//	hit := disrupt.Selection{Seed: seed, Mode: disrupt.ModePercent, Value: 20}.Select(candidates)
//	text, err := disrupt.Encode(disrupt.Plan{Entries: []disrupt.Entry{{Run: run.Name, UID: string(run.UID), …}}})
//	plan, err = disrupt.Decode(text)
//	active, next := disrupt.At(plan.Entries, node, now)
//
// The API reference has the types that the kinds of v1alpha1 use.
//
// +groupName=hollowfleet.io
// +versionName=v1alpha1
package disrupt
