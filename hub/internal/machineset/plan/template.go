package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Template is what a MachineSet gives to each of its Machines and keeps in sync there: what needs no replacement
// of the Machine. The rest of the template reaches new Machines only.
type Template struct {
	labels, annotations map[string]string
	// given is what TemplateKeysAnnotation says, and keys is its value; empty without anything to say.
	given given
	keys  string
	body  v1alpha1.MachineTemplateBody
	// problems say what is left out of the template, and why.
	problems []string
}

// given is the form of TemplateKeysAnnotation: what a Machine has from its set, beside what it may have from others.
type given struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	limits
}

// TemplateOf returns set's.
func TemplateOf(set *v1alpha1.MachineSet) Template {
	metadata, problems := Usable(set.Spec.Template.Metadata)
	t := Template{labels: metadata.Labels, annotations: metadata.Annotations, body: set.Spec.Template.Spec, problems: problems}
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		// What the selector asks for cannot leave the template.
		if _, selected := set.Spec.Selector.MatchLabels[key]; !selected {
			t.given.Labels = append(t.given.Labels, key)
		}
	}
	t.given.Annotations = slices.Sorted(maps.Keys(metadata.Annotations))
	t.given.limits = limitsOf(&t.body)
	text, _ := json.Marshal(t.given) // Strings and durations can always be marshaled.
	if t.keys = string(text); t.keys == "{}" {
		t.keys = ""
	}
	if t.labels == nil {
		t.labels = map[string]string{}
	}
	AddLabels(t.labels, set)
	return t
}

// Problems say what of the set's template its Machines cannot have, and why.
func (t Template) Problems() []string { return t.problems }

// AddLabels adds to labels those that say where a Machine of set belongs.
func AddLabels(labels map[string]string, set *v1alpha1.MachineSet) {
	labels[v1alpha1.ClusterNameLabel] = set.Spec.ClusterName
	labels[v1alpha1.MachineSetNameLabel] = set.Name
	if deployment := set.Labels[v1alpha1.MachineDeploymentNameLabel]; deployment != "" {
		labels[v1alpha1.MachineDeploymentNameLabel] = deployment
	}
}

// Reached reports whether machine has all that t gives, and nothing of what it gave before and gives no more.
func (t Template) Reached(machine *v1alpha1.Machine) bool {
	if machine.Annotations[v1alpha1.TemplateKeysAnnotation] != t.keys ||
		!containsAll(machine.Labels, t.labels) || !containsAll(machine.Annotations, t.annotations) {
		return false
	}
	body := t.bodyFor(machine, t.given)
	return machine.Spec.HasTakenOver(&body)
}

// Give changes machine so that t has Reached it. Labels, annotations and limits that t never gave stay as they are.
func (t Template) Give(machine *v1alpha1.Machine) {
	var before given
	// A value that cannot be read was written by another client: nothing is known to have been given.
	if err := json.Unmarshal([]byte(machine.Annotations[v1alpha1.TemplateKeysAnnotation]), &before); err != nil {
		before = given{}
	}
	machine.Labels = replaceKeys(machine.Labels, before.Labels, t.labels)
	machine.Annotations = replaceKeys(machine.Annotations, before.Annotations, t.annotations)
	delete(machine.Annotations, v1alpha1.TemplateKeysAnnotation)
	if t.keys != "" {
		machine.Annotations[v1alpha1.TemplateKeysAnnotation] = t.keys
	}
	body := t.bodyFor(machine, before)
	machine.Spec.TakeOver(&body)
}

// bodyFor is t's body with the limits that a person has given to machine since before.
func (t Template) bodyFor(machine *v1alpha1.Machine, before given) v1alpha1.MachineTemplateBody {
	body := t.body
	has := limitsOf(&machine.Spec.MachineTemplateBody)
	has.limitsAfter(before.limits, t.given.limits).putInto(&body)
	return body
}

// replaceKeys is all without the keys of gone, and with what is given.
func replaceKeys(all map[string]string, gone []string, given map[string]string) map[string]string {
	all = maps.Clone(all)
	if all == nil {
		all = map[string]string{}
	}
	for _, key := range gone {
		delete(all, key)
	}
	maps.Copy(all, given)
	return all
}

func containsAll(all, given map[string]string) bool {
	for key, value := range given {
		if found, ok := all[key]; !ok || found != value {
			return false
		}
	}
	return true
}

// What says of one Machine alone what has happened to it, or must happen to it. From a template it would come back each
// time that it is taken off.
var (
	reservedLabels      = []string{v1alpha1.UpdateInPlaceLabel}
	reservedAnnotations = []string{
		v1alpha1.TemplateKeysAnnotation, v1alpha1.DeleteMachineAnnotation, v1alpha1.RemediationAnnotation,
		v1alpha1.ReplacesAnnotation, v1alpha1.InPlaceUpdateAnnotation, v1alpha1.TraceparentAnnotation,
	}
)

// Usable returns metadata without the labels and annotations that no Machine can have from a template, and says of each
// of those what is wrong. Admission refuses them; an object that is older than admission may have them all the same, and
// its Machines must be healed and updated without.
func Usable(metadata v1alpha1.TemplateMetadata) (v1alpha1.TemplateMetadata, []string) {
	usable := *metadata.DeepCopy()
	var problems []string
	leaveOut := func(from map[string]string, field, key string, wrong []string) {
		if len(wrong) > 0 {
			delete(from, key)
			problems = append(problems, fmt.Sprintf("%s[%q] is left out: %s", field, key, strings.Join(wrong, ", ")))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		leaveOut(usable.Labels, "metadata.labels", key, wrongLabel(key, metadata.Labels[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(metadata.Annotations)) {
		// The API server compares the keys of annotations without regard to case.
		wrong := validation.IsQualifiedName(strings.ToLower(key))
		if slices.Contains(reservedAnnotations, key) {
			wrong = []string{"it is reserved for single machines"}
		}
		leaveOut(usable.Annotations, "metadata.annotations", key, wrong)
	}
	return usable, problems
}

func wrongLabel(key, value string) []string {
	if slices.Contains(reservedLabels, key) {
		return []string{"it is reserved for single machines"}
	}
	return append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
}

// SelectorProblem says why no Machine of t, which is set's, could match set's selector; empty if it would.
func (t Template) SelectorProblem(set *v1alpha1.MachineSet) string {
	selector := set.Spec.Selector.MatchLabels
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if wrong := wrongLabel(key, selector[key]); len(wrong) > 0 {
			return fmt.Sprintf("spec.selector.matchLabels[%q]: %s", key, strings.Join(wrong, ", "))
		}
	}
	machine := &v1alpha1.Machine{}
	t.Give(machine)
	if !labels.SelectorFromSet(selector).Matches(labels.Set(machine.Labels)) {
		return fmt.Sprintf("spec.selector.matchLabels %s has labels that spec.template does not set on machines, or that "+
			"the hub sets to another value: machines get %s", labels.Set(selector), labels.Set(machine.Labels))
	}
	return ""
}

// limits are those fields of a Machine that a person may set on it although its MachineSet's template gives them, too.
type limits struct {
	Creation                *metav1.Duration `json:"creationTimeout,omitempty"`
	Health                  *metav1.Duration `json:"healthTimeout,omitempty"`
	Drain                   *metav1.Duration `json:"drainTimeout,omitempty"`
	UnhealthyNodeConditions []string         `json:"unhealthyNodeConditions,omitempty"`
}

func limitsOf(body *v1alpha1.MachineTemplateBody) limits {
	l := limits{UnhealthyNodeConditions: body.UnhealthyNodeConditions}
	if timeouts := body.Timeouts; timeouts != nil {
		l.Creation, l.Health, l.Drain = timeouts.Creation, timeouts.Health, timeouts.Drain
	}
	return l
}

// putInto makes l the limits of body.
func (l limits) putInto(body *v1alpha1.MachineTemplateBody) {
	body.UnhealthyNodeConditions, body.Timeouts = l.UnhealthyNodeConditions, nil
	if l.Creation != nil || l.Health != nil || l.Drain != nil {
		body.Timeouts = &v1alpha1.MachineTimeouts{Creation: l.Creation, Health: l.Health, Drain: l.Drain}
	}
}

// limitsAfter is what l, a Machine's, becomes when its template gives wanted and gave before. What it lacks, and what it still
// has from before, it takes from wanted; anything else a user has set on this Machine.
func (l limits) limitsAfter(before, wanted limits) limits {
	l.Creation = timeoutAfter(l.Creation, before.Creation, wanted.Creation)
	l.Health = timeoutAfter(l.Health, before.Health, wanted.Health)
	l.Drain = timeoutAfter(l.Drain, before.Drain, wanted.Drain)
	if len(l.UnhealthyNodeConditions) == 0 || slices.Equal(l.UnhealthyNodeConditions, before.UnhealthyNodeConditions) {
		l.UnhealthyNodeConditions = wanted.UnhealthyNodeConditions
	}
	return l
}

func timeoutAfter(has, before, wanted *metav1.Duration) *metav1.Duration {
	if has == nil || before != nil && has.Duration == before.Duration {
		return wanted
	}
	return has
}
