package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

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
