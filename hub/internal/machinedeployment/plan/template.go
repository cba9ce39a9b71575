package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// SameTemplate reports whether a Machine of one template can become one of the other without being replaced or
// updated: whether they mean the same, however it is written, but for what Propagate takes over.
func SameTemplate(a, b v1alpha1.MachineTemplate) (bool, error) {
	left, err := canonicalJSON(NormalizeTemplate(a))
	if err != nil {
		return false, err
	}
	right, err := canonicalJSON(NormalizeTemplate(b))
	if err != nil {
		return false, err
	}
	return bytes.Equal(left, right), nil
}

// TemplateBeside is deployment's template as set's can be compared with it: with the content that set has taken, if set is that of the
// last revision. Which content any other one means stands in the ConfigMap.
func TemplateBeside(deployment *v1alpha1.MachineDeployment, set *v1alpha1.MachineSet) v1alpha1.MachineTemplate {
	template := deployment.Spec.Template
	source, taken := template.Spec.ConfigSource, set.Spec.Template.Spec.ConfigSource
	if source == nil || taken == nil || taken.Resolved == nil {
		return template
	}
	pinned := source.SHA256 != "" && source.SHA256 == v1alpha1.ContentHash(taken.Resolved.Content)
	revision := deployment.Annotations[v1alpha1.RevisionAnnotation]
	latest := source.SHA256 == "" && source.Key == taken.Resolved.Key && revision != "" && revision == set.Annotations[v1alpha1.RevisionAnnotation]
	if pinned || latest {
		template.Spec.ConfigSource = taken
	}
	return template
}

// Hash names a template in at most 10 characters that are allowed in names and labels. Two templates may
// have one hash; collisions then chooses another.
func Hash(template v1alpha1.MachineTemplate, collisions int32) (string, error) {
	text, err := canonicalJSON(template)
	if err != nil {
		return "", err
	}
	sum := fnv.New32a()
	sum.Write(text) // Never fails.
	if collisions > 0 {
		fmt.Fprintf(sum, "/%d", collisions)
	}
	return rand.SafeEncodeString(fmt.Sprint(sum.Sum32())), nil
}

// Propagate returns template with all that needs no replacement taken from wanted: the metadata of Machines, and
// what the agent keeps in sync on a Node or reads again each time. Labels in keep, the selector of template's set,
// stay as they are.
func Propagate(template, wanted v1alpha1.MachineTemplate, keep map[string]string) v1alpha1.MachineTemplate {
	result := *template.DeepCopy()
	result.Spec.TakeOver(&wanted.Spec)
	result.Metadata = *wanted.Metadata.DeepCopy()
	if result.Metadata.Labels == nil {
		result.Metadata.Labels = map[string]string{}
	}
	maps.Copy(result.Metadata.Labels, keep)
	if hash, found := template.Metadata.Labels[v1alpha1.MachineTemplateHashLabel]; found {
		result.Metadata.Labels[v1alpha1.MachineTemplateHashLabel] = hash
	}
	return result
}

// canonicalJSON is the JSON, with sorted keys, of what cannot change without an update or a replacement.
func canonicalJSON(template v1alpha1.MachineTemplate) ([]byte, error) {
	body := template.Spec
	body.TakeOver(&v1alpha1.MachineTemplateBody{})
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("reading machine template: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading machine template: %w", err)
	}
	text, err = json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("reading machine template: %w", err)
	}
	return text, nil
}

// Peer is what counts of another deployment that shares the surge with this one.
type Peer struct {
	Name string
	// Replicas that it is to have.
	Replicas int
	// Machines that it has, or may make at any moment, those being deleted too.
	Machines int
	// Unseen: the controller of one of its sets has not reported on the set's current spec, so it may get more
	// Machines than these.
	Unseen bool
}

// usedSurge is how much of the shared surge it uses.
func (p Peer) usedSurge() int { return max(p.Machines-p.Replicas, 0) }

// maxSurge is how many Machines more than replicas may exist, those of the peers counted in: a percentage is of all. A
// deployment that was scaled to 0 is to have no Machine at all, as in apps/v1.
func (in Input) maxSurge() int {
	if in.Replicas == 0 {
		return 0
	}
	replicas := in.Replicas
	for _, peer := range in.Peers {
		replicas += peer.Replicas
	}
	surge, _ := in.Strategy.Bounds(replicas)
	return surge
}

// remainingSurge is what of surge the peers leave. Nothing, as long as it is not known how much they use.
func remainingSurge(surge int, peers []Peer) int {
	for _, peer := range peers {
		if peer.Unseen {
			return 0
		}
		surge -= peer.usedSurge()
	}
	return max(surge, 0)
}

// freeSlots is how many of wanted Machines more may be made now. What only the peers' surge keeps back is noted.
func (w *work) freeSlots(wanted int) int {
	own := min(wanted, w.limit-w.countOccupied())
	shared := max(min(wanted, w.ceiling-w.countOccupied()), 0)
	w.held = w.held || shared < own
	return shared
}

// surgeHolders are the peers that use the whole surge up while this deployment, for lack of it, has nothing to do or to wait
// for. What a peer uses for a moment only, while it is unseen, is not worth telling.
func (w *work) surgeHolders(in Input) []string {
	used := 0
	var names []string
	for _, peer := range in.Peers {
		if used += peer.usedSurge(); peer.usedSurge() > 0 {
			names = append(names, peer.Name)
		}
	}
	switch {
	case !w.held || used < w.limit-w.replicas:
		return nil
	case slices.ContainsFunc(w.allPools(), func(s *pool) bool { return !s.isResting() }):
		return nil
	case w.current != nil && w.current.available < w.current.Replicas:
		return nil // What it waits for first is its own.
	}
	slices.Sort(names)
	return names
}

// NormalizeTemplate returns template in one spelling: two that differ only in how a version, a quantity, a duration or a default is
// written are equal in it. Only comparisons rest on it. Names and hashes rest on the text, so that those of an older hub stay.
func NormalizeTemplate(template v1alpha1.MachineTemplate) v1alpha1.MachineTemplate {
	body := &template.Spec
	if kubelet := body.Versions.Kubelet; kubelet != "" {
		body.Versions.Kubelet = "v" + strings.TrimPrefix(kubelet, "v")
	}
	if source := body.ConfigSource; source != nil && source.Resolved != nil {
		// Where a content was taken from changes no node.
		body.ConfigSource = &v1alpha1.ConfigSource{Resolved: &v1alpha1.ResolvedConfigSource{Content: source.Resolved.Content}}
	}
	config := &body.ProviderConfig
	if config.Provider == v1alpha1.ProviderHollow {
		config.Provider = ""
	}
	if config.Provider == "" && config.Value != nil {
		if value, err := hollowMeaning(config.Value.Raw); err == nil {
			config.Value = &runtime.RawExtension{Raw: value}
		}
	}
	return template
}

// spelling is how the value of one field is written, or nil if it is what the field has anyway.
type spelling func(any) any

// hollowFields are the fields of a HollowNodeConfig whose values can be written in several ways.
var hollowFields = map[string]spelling{
	"capacity": spellEach(spellQuantity), "podResources": spellEach(spellQuantity),
	"startupDelay": omitDefault("0s", spellDuration), "healthyDuration": spellDuration, "unhealthyDuration": spellDuration,
	"maxPods": omitDefault(json.Number("110"), nil), "osImage": omitDefault("Hollow Linux", nil), "profile": omitDefault(string(v1alpha1.HollowNodeProfileFast), nil),
	"kubelet":            spellFields(nil),
	"turnUnhealthyAfter": omitDefault(false, nil), "turnUnhealthyPeriodically": omitDefault(false, nil),
	"imagePull": spellFields(map[string]spelling{
		"bytesPerSecond": spellQuantity, "failurePercent": omitDefault(json.Number("0"), nil), "seed": omitDefault(json.Number("0"), nil),
	}),
}

// hollowMeaning is a HollowNodeConfig in one spelling.
func hollowMeaning(raw []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading the provider's configuration: %w", err)
	}
	if value["kind"] != v1alpha1.HollowNodeConfigKind || value["apiVersion"] != v1alpha1.GroupVersion.String() {
		return raw, nil
	}
	spelled, _ := spellFields(hollowFields)(value).(map[string]any)
	return json.Marshal(spelled)
}

// spellFields spells those of an object, and leaves out what is empty.
func spellFields(known map[string]spelling) spelling {
	return func(value any) any {
		object, is := value.(map[string]any)
		if !is {
			return value
		}
		all := map[string]any{}
		for key, field := range object {
			if spell := known[key]; spell != nil {
				field = spell(field)
			}
			if !isEmpty(field) {
				all[key] = field
			}
		}
		return all
	}
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

// spellEach spells all values of an object.
func spellEach(spell spelling) spelling {
	return func(value any) any {
		object, is := value.(map[string]any)
		if !is {
			return value
		}
		all := map[string]any{}
		for key, field := range object {
			all[key] = spell(field)
		}
		return all
	}
}

// omitDefault leaves out the default.
func omitDefault(usual any, spell spelling) spelling {
	return func(value any) any {
		if spell != nil {
			value = spell(value)
		}
		if value == usual {
			return nil
		}
		return value
	}
}

func spellQuantity(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	found, err := v1alpha1.DecodeQuantity(text)
	if err != nil {
		return value
	}
	return resource.NewDecimalQuantity(*found.AsDec(), resource.DecimalSI).String()
}

func spellDuration(value any) any {
	text, is := value.(string)
	if !is {
		return value
	}
	found, err := time.ParseDuration(text)
	if err != nil {
		return value
	}
	return found.String()
}
