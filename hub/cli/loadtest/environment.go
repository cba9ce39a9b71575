package loadtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// property is something of a report that has to be the same in two reports which are compared.
type property string

// The properties, in the order in which they are shown.
const (
	ofLoad     property = "load"
	ofClusters property = "clusters"
	ofVersions property = "versions"
	ofNodes    property = "nodes"
	ofProfile  property = "profile"
	ofMachine  property = "machine"
	ofValidity property = "validity"
)

var properties = []property{ofLoad, ofClusters, ofVersions, ofNodes, ofProfile, ofMachine, ofValidity}

// unknown is a property of a run that does not say it, because its agent is of an earlier release or had no right to read it.
const unknown = "unknown"

// environmentOf is what a report says of each property.
func (r *report) environmentOf() map[property]string {
	versions, nodes, profiles, machines := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range r.Runs {
		e := r.Runs[i].Environment
		if e == nil {
			for _, set := range []map[string]bool{versions, nodes, profiles, machines} {
				set[unknown] = true
			}
			continue
		}
		versions["Kubernetes "+orUnknown(e.KubernetesVersion)] = true
		for _, version := range e.KubeletVersions {
			versions["kubelet "+version.Value] = true
		}
		nodes[fmt.Sprint(e.Nodes)] = true
		for _, profile := range e.Profiles {
			profiles[profile.Value] = true
		}
		machines[machineText(e)] = true
	}
	return map[property]string{
		ofClusters: fmt.Sprint(len(r.Runs)), ofVersions: setText(versions), ofNodes: setText(nodes), ofProfile: setText(profiles), ofMachine: setText(machines),
	}
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

func machineText(e *v1alpha1.LoadEnvironment) string {
	const mebibytesOfGibibyte = 1024
	return fmt.Sprintf("%d processors (%s), %d GiB of memory", e.Processors, orUnknown(e.Processor), (e.MemoryMiB+mebibytesOfGibibyte/2)/mebibytesOfGibibyte)
}

func setText(set map[string]bool) string {
	if len(set) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}

// environmentLines say what the runs were made on.
func (r *report) environmentLines() []string {
	if len(r.Runs) == 0 {
		return nil
	}
	e := r.environmentOf()
	return []string{fmt.Sprintf("made on: %s; Nodes in each cluster: %s; profile: %s; machine: %s", e[ofVersions], e[ofNodes], e[ofProfile], e[ofMachine])}
}

// difference is a property in which two reports differ.
type difference struct {
	Property property `json:"property"`
	Before   string   `json:"before"`
	Now      string   `json:"now"`
}

// findDifferences between two reports, which keep their measurements from being compared. What is not known of one of them differs.
func findDifferences(before, now *report) (all []difference) {
	old, current := before.environmentOf(), now.environmentOf()
	old[ofLoad], current[ofLoad] = before.loadText(), now.loadText()
	old[ofValidity], current[ofValidity] = before.describeValidity(), now.describeValidity()
	for _, one := range properties {
		same := old[one] == current[one] && !strings.Contains(old[one], unknown)
		if one == ofValidity {
			same = old[one] == valid && current[one] == valid
		}
		if !same {
			all = append(all, difference{one, old[one], current[one]})
		}
	}
	for i := range all {
		if all[i].Property == ofLoad && all[i].Before != unknown && all[i].Now != unknown {
			all[i].Before, all[i].Now = "another", "another"
		}
	}
	return all
}

// loadText is the load without what does not change the measurements, in a form that can be compared.
func (r *report) loadText() string {
	if r.Load == nil && r.Preset == nil {
		return unknown
	}
	preset, load := r.Preset.DeepCopy(), r.Load.DeepCopy()
	if preset != nil {
		preset.Thresholds, preset.CleanupPolicy = nil, ""
	}
	if load != nil {
		load.Thresholds, load.CleanupPolicy, load.AbortOnBreach = nil, "", false
	}
	text, err := json.Marshal([]any{preset, load, r.Disruption})
	if err != nil {
		return unknown
	}
	return string(text)
}

const valid = "valid and complete"

// describeValidity says whether measurements are true, and all there.
func (r *report) describeValidity() string {
	var why []string
	if r.Verdict == v1alpha1.LoadInvalid || r.Invalid > 0 {
		why = append(why, fmt.Sprintf("invalid in %d of %d clusters", r.Invalid, r.Clusters))
	}
	if r.Partial {
		why = append(why, "partial")
	}
	if len(why) == 0 {
		return valid
	}
	return strings.Join(why, ", ")
}
