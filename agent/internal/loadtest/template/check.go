package template

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Check makes the templates of a run, by name. It looks at what they are going to make before the first request, and refuses a run that
// would fill the API server's etcd. The target has the Nodes that DaemonSets have pods on.
func Check(ctx context.Context, target kubernetes.Interface, run *v1alpha1.LoadTestRun, limits confine.Limits) (map[string]*Template, error) {
	templates := map[string]*Template{}
	for _, from := range run.Spec.Templates {
		template, err := parseTemplate(run, from, limits)
		if err == nil {
			err = template.surveyObjects(ctx, renderingsOf(&run.Spec.Load, from.Name))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describeUse(&run.Spec.Load, from.Name), err)
		}
		templates[from.Name] = template
	}
	return templates, checkStored(ctx, target, run, templates, limits)
}

// describeUse names a template, and the first step that uses it.
func describeUse(load *v1alpha1.Load, template string) string {
	for _, step := range load.Steps {
		if slices.ContainsFunc(step.Phases, func(p v1alpha1.LoadPhase) bool { return p.Template == template }) {
			return "template " + template + " of step " + step.Name
		}
	}
	return "template " + template
}

// mostSurveyed is how many objects of a template that decides are made and looked at before the first request. Those after them are
// looked at before they are sent, as all are.
const mostSurveyed = 5_000

const (
	// mostSurveyedBytes bounds how much text that is: a template of a few kilobytes may become a megabyte.
	mostSurveyedBytes = 32 << 20
	// mostDecisions is how many conditions and comparisons a template may have: each is tried both ways.
	mostDecisions = 64
	// largestIndex and largestIteration are rendered to find how large an object gets.
	largestIndex, largestIteration = 999_999_999, 999
	// sizeMargin is how much larger an object may be than the largest that was looked at: numbers have different lengths.
	sizeMargin = 1 << 10
)

// rendering is an object that a run is going to make.
type rendering struct{ index, iteration int }

// renderingsOf are the objects of a template that the steps create in a namespace, as far as they are known beforehand: the first ones, and
// the last.
func renderingsOf(load *v1alpha1.Load, template string) []rendering {
	all := []rendering{{}}
	next, last := 0, rendering{}
	for i := range load.Steps {
		step := &load.Steps[i]
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
func (t *Template) surveyObjects(ctx context.Context, all []rendering) error {
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
		object, err := t.Object(anyNamespace, each.index, each.iteration)
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

// anyNamespace stands for a namespace of the run before there is one.
const anyNamespace = "load-00000000-0"

// largestOf is how many bytes the largest object of a template has, of those that were looked at and those whose numbers are longer.
func (t *Template) largestOf(seen int) int {
	sets := append(decisionOutcomes(t.text.listDecisions()), nil)
	for _, forced := range sets {
		// What is not an object cannot be sent either.
		if text, err := t.textOf(forced, anyNamespace, largestIndex, largestIteration); err == nil {
			if content, err := readYAML(text); err == nil {
				seen = max(seen, len(content))
			}
		}
	}
	return seen + sizeMargin
}

// sizeOf is how many bytes an object has as it is sent.
func sizeOf(object *unstructured.Unstructured) int {
	content, err := json.Marshal(object.Object)
	if err != nil {
		return 0 // The API server cannot get it either.
	}
	return len(content)
}

// checkStored refuses a run that would fill the API server's etcd, before the first object.
func checkStored(ctx context.Context, target kubernetes.Interface, run *v1alpha1.LoadTestRun, templates map[string]*Template, limits confine.Limits) error {
	of := map[string]footprint{}
	nodes := 0
	for name, template := range templates {
		first, err := template.Object(anyNamespace, 0, 0)
		if err != nil {
			return err
		}
		if first.GetKind() == "DaemonSet" && nodes == 0 {
			found, err := target.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return fmt.Errorf("counting the Nodes that DaemonSets have pods on: %w", err)
			}
			nodes = max(len(found.Items), 1)
		}
		of[name] = template.footprintOf(first, nodes, run.Spec.Timeout.Duration)
	}
	if most, by := storedBytes(&run.Spec.Load, of); most > float64(limits.MaxStoredBytes()) {
		return fmt.Errorf("spec.steps: the run would store about %s in the API server's etcd, most of it by %s, and %s are allowed: use fewer namespaces or replicas, a lower qps or a smaller template, or let an administrator of the cluster raise loadTests.maxStored of the agent's chart (--load-test-max-stored)",
			inBytes(most), describeUse(&run.Spec.Load, by), limits.MaxStored)
	}
	return nil
}
