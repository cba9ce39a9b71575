package plan

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Template is what a MachineSet gives to each of its Machines and keeps in sync there: what needs no replacement
// of the Machine. The rest of the template reaches new Machines only.
type Template struct {
	labels, annotations map[string]string
	// keys is the value of TemplateKeysAnnotation; empty without any key that could leave the template.
	keys string
	body v1alpha1.MachineTemplateBody
}

// givenKeys is the form of TemplateKeysAnnotation.
type givenKeys struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// TemplateOf returns set's.
func TemplateOf(set *v1alpha1.MachineSet) Template {
	metadata := set.Spec.Template.Metadata
	t := Template{labels: maps.Clone(metadata.Labels), annotations: metadata.Annotations, body: set.Spec.Template.Spec}
	var given givenKeys
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		// What the selector asks for cannot leave the template.
		if _, selected := set.Spec.Selector.MatchLabels[key]; !selected {
			given.Labels = append(given.Labels, key)
		}
	}
	given.Annotations = slices.Sorted(maps.Keys(metadata.Annotations))
	if len(given.Labels)+len(given.Annotations) > 0 {
		text, _ := json.Marshal(given) // Strings can always be marshaled.
		t.keys = string(text)
	}
	if t.labels == nil {
		t.labels = map[string]string{}
	}
	AddLabels(t.labels, set)
	return t
}

// AddLabels adds to labels those that say where a Machine of set belongs.
func AddLabels(labels map[string]string, set *v1alpha1.MachineSet) {
	labels[v1alpha1.ClusterNameLabel] = set.Spec.ClusterName
	labels[v1alpha1.MachineSetNameLabel] = set.Name
	if deployment := set.Labels[v1alpha1.MachineDeploymentNameLabel]; deployment != "" {
		labels[v1alpha1.MachineDeploymentNameLabel] = deployment
	}
}

// Reached tells whether machine has all that t gives, and nothing of what it gave before and gives no more.
func (t Template) Reached(machine *v1alpha1.Machine) bool {
	return contains(machine.Labels, t.labels) && contains(machine.Annotations, t.annotations) &&
		machine.Annotations[v1alpha1.TemplateKeysAnnotation] == t.keys && machine.Spec.HasTakenOver(&t.body)
}

// Give changes machine so that t has Reached it. Labels and annotations that t never gave stay as they are.
func (t Template) Give(machine *v1alpha1.Machine) {
	var before givenKeys
	// A value that cannot be read was written by somebody else: nothing is known to have been given.
	if err := json.Unmarshal([]byte(machine.Annotations[v1alpha1.TemplateKeysAnnotation]), &before); err != nil {
		before = givenKeys{}
	}
	machine.Labels = replaced(machine.Labels, before.Labels, t.labels)
	machine.Annotations = replaced(machine.Annotations, before.Annotations, t.annotations)
	delete(machine.Annotations, v1alpha1.TemplateKeysAnnotation)
	if t.keys != "" {
		machine.Annotations[v1alpha1.TemplateKeysAnnotation] = t.keys
	}
	machine.Spec.TakeOver(&t.body)
}

// replaced is all without the keys of gone, and with what is given.
func replaced(all map[string]string, gone []string, given map[string]string) map[string]string {
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

func contains(all, given map[string]string) bool {
	for key, value := range given {
		if found, ok := all[key]; !ok || found != value {
			return false
		}
	}
	return true
}
