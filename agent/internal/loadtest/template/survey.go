package loadtest

import (
	"context"
	"errors"
	"fmt"
	"text/template/parse"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// mostSurveyed is how many objects of a template that decides are made and looked at before the first request. Those after them are
// looked at before they are sent, as all are.
const mostSurveyed = 5_000

const (
	// mostSurveyedBytes bounds how much text that is: a template of a few kilobytes may become a megabyte.
	mostSurveyedBytes = 32 << 20
	// mostDecisions is how many conditions and comparisons a template may have: each is tried both ways.
	mostDecisions = 64
)

// rendering is an object that a run is going to make.
type rendering struct{ index, iteration int }

// renderingsOf are the objects of a template that the steps create in a namespace, as far as they are known beforehand: the first ones, and
// the last.
func (e *engine) renderingsOf(template string) []rendering {
	all := []rendering{{}}
	next, last := 0, rendering{}
	for i := range e.run.Spec.Steps {
		step := &e.run.Spec.Steps[i]
		for iteration := range int(max(step.Iterations, 1)) {
			for _, phase := range step.Phases {
				if phase.Template != template || phase.Action != v1alpha1.LoadCreate {
					continue
				}
				for i := range int(phase.Replicas) {
					if len(all) > mostSurveyed {
						break
					}
					all = append(all, rendering{next + i, iteration})
				}
				next += int(phase.Replicas)
				last = rendering{max(next-1, 0), iteration}
			}
		}
	}
	return append(all, last)
}

// surveyObjects looks at the objects of a template before the first request. Of one without decisions the first and the last say how large all
// are, and how many pods they ask for. Of one that decides it makes the objects that are going to be created, and each branch once.
func (t *objectTemplate) surveyObjects(ctx context.Context, all []rendering) error {
	deciding, last := t.text.listDecisions(), all[len(all)-1]
	if len(deciding) > mostDecisions {
		return fmt.Errorf("object: it has %d conditions and comparisons, and %d at most are possible: use several templates", len(deciding), mostDecisions)
	}
	if len(deciding) == 0 && !t.text.callsFunctions() {
		all = []rendering{all[0], last}
	}
	largest, mostPods, looked := 0, int64(0), 0
	for _, each := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if looked > mostSurveyedBytes && each != last {
			continue
		}
		object, err := t.renderObject(anyNamespace, each.index, each.iteration)
		if err != nil {
			return fmt.Errorf("object %d: %w", each.index, err)
		}
		size := sizeOf(object)
		largest, mostPods, looked = max(largest, size), max(mostPods, t.limits.Pods(object)), looked+size
	}
	for _, forced := range decisionOutcomes(deciding) {
		for _, each := range []rendering{{}, last} {
			object, err := t.renderWith(forced, anyNamespace, each.index, each.iteration)
			// A combination that never occurs may be no object. It must not hide one that is refused.
			var refused *confine.Error
			if errors.As(err, &refused) {
				return err
			}
			if err == nil {
				mostPods = max(mostPods, t.limits.Pods(object))
			}
		}
	}
	t.largest, t.mostPods = t.largestOf(largest), mostPods
	return nil
}

// endIfRefused ends the run if an object of a template must not be sent. That one is not, and none after it.
func (p *phase) endIfRefused(err error) {
	var refused *confine.Error
	if errors.As(err, &refused) {
		p.end(fmt.Errorf("template %s: %w", p.template.name, err))
	}
}

// anyNamespace stands for a namespace of the run before there is one.
const anyNamespace = "load-00000000-0"

// decisionOutcomes are decisions in which each comparison comes out true once and false once: all of them, and each by itself.
func decisionOutcomes(deciding []*parse.PipeNode) []decisions {
	var sets []decisions
	for _, outcome := range []bool{true, false} {
		all := decisions{}
		for _, pipe := range deciding {
			all[pipe] = outcome
			sets = append(sets, decisions{pipe: outcome})
		}
		sets = append(sets, all)
	}
	return sets
}

// listDecisions are the conditions and comparisons of a template.
func (t text) listDecisions() []*parse.PipeNode {
	var found []*parse.PipeNode
	t.visitPipes(t.root, func(pipe *parse.PipeNode, isCondition bool) {
		if isCondition || comparisons[calledIn(pipe)] {
			found = append(found, pipe)
		}
	})
	return found
}

// callsFunctions reports whether a template calls a function.
func (t text) callsFunctions() bool {
	computes := false
	t.visitPipes(t.root, func(pipe *parse.PipeNode, _ bool) { computes = computes || calledIn(pipe) != "" })
	return computes
}

func calledIn(pipe *parse.PipeNode) string {
	if len(pipe.Cmds) == 1 && len(pipe.Cmds[0].Args) > 0 {
		if called, ok := pipe.Cmds[0].Args[0].(*parse.IdentifierNode); ok {
			return called.Ident
		}
	}
	return ""
}

// visitPipes calls see for each pipe.
func (t text) visitPipes(node parse.Node, see func(pipe *parse.PipeNode, isCondition bool)) {
	switch node := node.(type) {
	case *parse.ListNode:
		if node == nil {
			return
		}
		for _, inner := range node.Nodes {
			t.visitPipes(inner, see)
		}
	case *parse.ActionNode:
		t.visitPipe(node.Pipe, false, see)
	case *parse.IfNode:
		t.visitPipe(node.Pipe, true, see)
		t.visitPipes(node.List, see)
		t.visitPipes(node.ElseList, see)
	}
}

func (t text) visitPipe(pipe *parse.PipeNode, isCondition bool, see func(*parse.PipeNode, bool)) {
	see(pipe, isCondition)
	for _, command := range pipe.Cmds {
		for _, arg := range command.Args {
			if inner, ok := arg.(*parse.PipeNode); ok {
				t.visitPipe(inner, false, see)
			}
		}
	}
}
