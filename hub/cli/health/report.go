package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// ListedKind is a kind that is judged.
type ListedKind struct {
	Kind       string
	Namespaced bool
	// List makes an empty list of its objects.
	List func() client.ObjectList
}

// Kinds are those that are judged, in the order in which a status shows them.
var Kinds = []ListedKind{
	{Cluster, false, func() client.ObjectList { return &v1alpha1.ClusterList{} }},
	{MachineFleet, false, func() client.ObjectList { return &v1alpha1.MachineFleetList{} }},
	{FleetApproval, false, func() client.ObjectList { return &v1alpha1.FleetApprovalList{} }},
	{MachineDeployment, true, func() client.ObjectList { return &v1alpha1.MachineDeploymentList{} }},
	{MachineSet, true, func() client.ObjectList { return &v1alpha1.MachineSetList{} }},
	{Machine, true, func() client.ObjectList { return &v1alpha1.MachineList{} }},
	{MachineClass, true, func() client.ObjectList { return &v1alpha1.MachineClassList{} }},
	{NodeDisruption, false, func() client.ObjectList { return &v1alpha1.NodeDisruptionList{} }},
	{NodeDisruptionRun, true, func() client.ObjectList { return &v1alpha1.NodeDisruptionRunList{} }},
	{LoadTest, false, func() client.ObjectList { return &v1alpha1.LoadTestList{} }},
	{LoadTestRun, true, func() client.ObjectList { return &v1alpha1.LoadTestRunList{} }},
	{SimulatedClusterSet, false, func() client.ObjectList { return &v1alpha1.SimulatedClusterSetList{} }},
	{SimulatedCluster, true, func() client.ObjectList { return &v1alpha1.SimulatedClusterList{} }},
}

// Count is how many objects of a kind are in each state. It is part of the JSON that "status -o json" prints.
type Count struct {
	// kind, such as Machine.
	Kind string `json:"kind"`
	// total is the sum of the numbers below: 0 if notLookedAt is set.
	Total      int `json:"total"`
	Healthy    int `json:"healthy"`
	InProgress int `json:"inProgress"`
	Waiting    int `json:"waiting"`
	Paused     int `json:"paused"`
	Problems   int `json:"problems"`
	// notLookedAt says why objects of the kind could not be listed; absent if they were.
	NotLookedAt string `json:"notLookedAt,omitempty"`
	// forbidden: they could not, because the user may not.
	Forbidden bool `json:"forbidden,omitempty"`
}

// NotLooked notes why objects of a kind could not be listed.
func (r *Report) NotLooked(kind, why string, forbidden bool) {
	r.Counts = append(r.Counts, Count{Kind: kind, NotLookedAt: why, Forbidden: forbidden})
}

// Report is how the objects of a fleet are.
type Report struct {
	Counts []Count
	// Findings are the objects that are not healthy: problems first, then by kind in the order of Kinds, the longest first.
	Findings []Finding
}

// Add judges all objects of a list.
func (j *Judge) Add(report *Report, kind string, list client.ObjectList) error {
	count := Count{Kind: kind}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("judging a list: %T is not an object", item)
		}
		s := subjectOf(object)
		if s == nil {
			return fmt.Errorf("judging a list: unknown kind %T", item)
		}
		found := j.judgeSubject(s)
		count.addState(found.state)
		if found.state != Healthy {
			report.Findings = append(report.Findings, s.findingOf(found))
		}
		return nil
	})
	report.Counts = append(report.Counts, count)
	return err
}

func (c *Count) addState(state State) {
	c.Total++
	switch state {
	case Healthy:
		c.Healthy++
	case InProgress:
		c.InProgress++
	case Waiting:
		c.Waiting++
	case Paused:
		c.Paused++
	case Problem:
		c.Problems++
	}
}

func (s *subject) findingOf(found judgement) Finding {
	f := Finding{
		Kind: s.kind, Namespace: s.GetNamespace(), Name: s.GetName(), State: found.state, Reason: found.reason, Message: found.message,
		Next: nextCommand(s, found),
	}
	if found.since.Year() >= 2000 { // The default of a kind's conditions is 1970.
		f.Since = new(found.since)
	}
	f.parentKind, f.parentName = s.parentOf()
	return f
}

// Sort puts problems first, and those of a kind that have lasted longest.
func (r *Report) Sort() {
	order := map[string]int{}
	for i, kind := range Kinds {
		order[kind.Kind] = i
	}
	rank := map[State]int{Problem: 0, Paused: 1, Waiting: 2, InProgress: 3}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), cmp.Compare(order[a.Kind], order[b.Kind]), compareTimes(a.Since, b.Since),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func compareTimes(a, b *metav1.Time) int {
	switch {
	case a == nil || b == nil:
		return countIf(b == nil) - countIf(a == nil)
	}
	return a.Compare(b.Time)
}

func countIf(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// Rows are the findings that a table shows: without children of an object that is in it for the same state, with one row for all
// objects of a Cluster that does not exist, and at most limit of a kind. more says how many are left out.
func (r *Report) Rows(limit int) (rows []Finding, more []string) {
	shown, orphans := map[string]bool{}, map[string]map[string]int{}
	for i := range r.Findings {
		if finding := &r.Findings[i]; finding.Reason == v1alpha1.ReasonClusterNotFound && finding.Namespace != "" {
			if orphans[finding.Namespace] == nil {
				orphans[finding.Namespace] = map[string]int{}
			}
			orphans[finding.Namespace][finding.Kind]++
		} else {
			shown[finding.Kind+"/"+finding.Namespace+"/"+finding.Name+"/"+string(finding.State)] = true
		}
	}
	for _, cluster := range sortedKeys(orphans) {
		rows = append(rows, orphanedFinding(cluster, orphans[cluster]))
	}
	taken, left := map[string]int{}, map[string]int{}
	for _, finding := range r.Findings {
		if finding.Reason == v1alpha1.ReasonClusterNotFound && finding.Namespace != "" {
			continue
		}
		if finding.Kind != Machine && shown[finding.parentKind+"/"+finding.Namespace+"/"+finding.parentName+"/"+string(finding.State)] {
			continue
		}
		if taken[finding.Kind]++; taken[finding.Kind] > limit {
			left[finding.Kind]++
			continue
		}
		rows = append(rows, finding)
	}
	for _, kind := range Kinds {
		if left[kind.Kind] > 0 {
			more = append(more, plural.Count(left[kind.Kind], kind.Kind))
		}
	}
	return rows, more
}

func orphanedFinding(cluster string, kinds map[string]int) Finding {
	var parts []string
	for _, kind := range Kinds {
		if kinds[kind.Kind] > 0 {
			parts = append(parts, plural.Count(kinds[kind.Kind], kind.Kind))
		}
	}
	return Finding{
		Kind: Cluster, Name: cluster, State: Problem, Reason: v1alpha1.ReasonClusterNotFound, Next: "kubectl hollow cluster join " + cluster,
		Message: fmt.Sprintf("does not exist, and its namespace has %s without an agent: let the cluster join again, or delete the namespace"+
			" (kubectl delete namespace %s --wait=false; kubectl hollow cluster remove-finalizers %s)", strings.Join(parts, ", "), cluster, cluster),
	}
}

func sortedKeys[T any](of map[string]T) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// resourceName is a kind as it is written on the command line.
func resourceName(kind string) string { return strings.ToLower(kind) }
