package loadtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/plural"
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

// perCluster are the properties that are compared for each cluster.
var perCluster = []property{ofVersions, ofNodes, ofProfile, ofMachine}

// environmentOf is what the run of a cluster says of each property. Where Nodes differ, their numbers count.
func (r *clusterReport) environmentOf() map[property][]string {
	e := r.Environment
	if e == nil {
		return map[property][]string{ofVersions: {unknown}, ofNodes: {unknown}, ofProfile: {unknown}, ofMachine: {unknown}}
	}
	return map[property][]string{
		ofVersions: append([]string{"Kubernetes " + orUnknown(e.KubernetesVersion)}, valuesOfNodes("kubelet ", e.KubeletVersions)...),
		ofNodes:    {fmt.Sprint(e.Nodes)}, ofProfile: valuesOfNodes("", e.Profiles), ofMachine: {machineText(e)},
	}
}

// valuesOfNodes are values, with the number of their Nodes where there are several.
func valuesOfNodes(prefix string, counts []v1alpha1.LoadNodeCount) (values []string) {
	for _, count := range counts {
		text := prefix + count.Value
		if len(counts) > 1 {
			text += " on " + plural.Count(int(count.Nodes), "Node")
		}
		values = append(values, text)
	}
	slices.Sort(values)
	return values
}

// valuesOf are the values of a property in all clusters.
func (r *report) valuesOf(one property) string {
	all := map[string]bool{}
	for i := range r.Runs {
		for _, value := range r.Runs[i].environmentOf()[one] {
			all[value] = true
		}
	}
	return setText(all)
}

// clusterValues are the values of a property by cluster.
func (r *report) clusterValues(one property) map[string]string {
	values := map[string]string{}
	for i := range r.Runs {
		values[r.Runs[i].Cluster] = strings.Join(r.Runs[i].environmentOf()[one], ", ")
	}
	return values
}

// describeClusters says how two reports differ in a property of clusters; empty texts if they do not. Clusters of the same names are compared
// one by one. Where they have other names, the same part of them has to have each value.
func describeClusters(one property, before, now *report) (old, current string) {
	was, is := before.clusterValues(one), now.clusterValues(one)
	if old, current = before.valuesOf(one), now.valuesOf(one); old != current || strings.Contains(old, unknown) {
		return old, current
	}
	names := slices.Sorted(maps.Keys(was))
	if !slices.Equal(names, slices.Sorted(maps.Keys(is))) {
		return describeParts(was, is)
	}
	var texts, others []string
	for _, name := range names {
		if was[name] != is[name] {
			texts, others = append(texts, name+": "+was[name]), append(others, name+": "+is[name])
		}
	}
	return fewTexts(texts), fewTexts(others)
}

// describeParts says how many clusters of two tests have each value that another part of the other test's clusters has.
func describeParts(was, is map[string]string) (old, current string) {
	counts := map[string][2]int{}
	for i, values := range []map[string]string{was, is} {
		for _, value := range values {
			count := counts[value]
			count[i]++
			counts[value] = count
		}
	}
	var texts, others []string
	for _, value := range slices.Sorted(maps.Keys(counts)) {
		if count := counts[value]; count[0]*len(is) != count[1]*len(was) {
			texts, others = append(texts, plural.Count(count[0], "cluster")+" with "+value), append(others, plural.Count(count[1], "cluster")+" with "+value)
		}
	}
	return fewTexts(texts), fewTexts(others)
}

// fewTexts joins the first of many texts.
func fewTexts(texts []string) string {
	const most = 3
	text := strings.Join(texts[:min(len(texts), most)], "; ")
	if more := len(texts) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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
	return []string{fmt.Sprintf("made on: %s; Nodes in each cluster: %s; profile: %s; machine: %s", r.valuesOf(ofVersions), r.valuesOf(ofNodes), r.valuesOf(ofProfile), r.valuesOf(ofMachine))}
}

// difference is a property in which two reports differ.
type difference struct {
	Property property `json:"property"`
	Before   string   `json:"before"`
	Now      string   `json:"now"`
}

// findDifferences between two reports, which keep their measurements from being compared. What is not known of one of them differs.
func findDifferences(before, now *report) (all []difference) {
	add := func(one property, old, current string, same bool) {
		if !same {
			all = append(all, difference{one, old, current})
		}
	}
	old, current := before.loadText(), now.loadText()
	same := old == current && old != unknown
	if old != unknown && current != unknown {
		old, current = "another", "another"
	}
	add(ofLoad, old, current, same)
	add(ofClusters, fmt.Sprint(len(before.Runs)), fmt.Sprint(len(now.Runs)), len(before.Runs) == len(now.Runs))
	for _, one := range perCluster {
		old, current := describeClusters(one, before, now)
		add(one, old, current, old == "")
	}
	old, current = before.describeValidity(), now.describeValidity()
	add(ofValidity, old, current, old == valid && current == valid)
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
