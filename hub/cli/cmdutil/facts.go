package cmdutil

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Fact is something to know of a result beside what the command says of it anyway.
type Fact struct{ Name, Value string }

// Result ends a command that has told what it did: it prints object if a format asks for that, and the facts if wide does.
func (o *Output) Result(hub *Hub, object runtime.Object, facts ...Fact) error {
	if _, own := o.Own(); !own {
		return o.Print(hub.Out, object)
	}
	o.PrintFacts(hub, facts...)
	return nil
}

// PrintFacts prints facts, one in a line, if the format is wide. One without a value is not known, and is left out.
func (o *Output) PrintFacts(hub *Hub, facts ...Fact) {
	if o.format != Wide {
		return
	}
	known, width := slices.DeleteFunc(facts, func(fact Fact) bool { return fact.Value == "" }), 0
	for _, fact := range known {
		width = max(width, len(fact.Name))
	}
	for _, fact := range known {
		fmt.Fprintf(hub.Out, "  %-*s  %s\n", width+1, fact.Name+":", fact.Value)
	}
}

// Since is when a condition came to its status; empty if there is no condition, or it is not True.
func Since(condition *metav1.Condition) string {
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return ""
	}
	return condition.LastTransitionTime.UTC().Format(time.RFC3339)
}
