package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
)

// mostNamed is how many workloads a note names.
const mostNamed = 5

// notes collects what is different in a rehearsal.
type notes struct {
	inventory *inventory.Inventory
	classes   map[string]bool
	// by has, for each thing that is different, the workloads that it concerns.
	by map[string][]string
}

func newNotes(i *inventory.Inventory) *notes {
	n := &notes{inventory: i, classes: map[string]bool{}, by: map[string][]string{}}
	for _, class := range i.PriorityClasses {
		n.classes[class.Name] = true
	}
	return n
}

// hasPriority reports whether a PriorityClass is there to be used.
func (n *notes) hasPriority(name string) bool {
	return n.classes[name] || name == "system-cluster-critical" || name == "system-node-critical"
}

// The things that are different, in the order in which they are named.
const (
	reservedNamespace = "in namespace " + agentNamespace + ", which is the agent's own in a simulated cluster, and left out"
	pinned            = "placed on one Node by its name, which no Node of the rehearsal has"
	ownScheduler      = "placed by a scheduler of their own in the cluster, and by Kubernetes' own in the rehearsal"
	noClass           = "of a PriorityClass that the inventory does not have, and have the default priority"
	withVolumes       = "with PersistentVolumeClaims: volumes do not tie pods to a zone or Node in the rehearsal"
	unknownResources  = "with requests that a hollow Node cannot serve (such as hugepages), which are left out"
)

var differences = []string{reservedNamespace, pinned, ownScheduler, noClass, withVolumes, unknownResources}

func (n *notes) look(w *inventory.Workload) {
	add := func(difference string, is bool) {
		if is {
			n.by[difference] = append(n.by[difference], w.ID())
		}
	}
	add(reservedNamespace, w.Namespace == agentNamespace)
	add(pinned, w.Pod.IsPinned())
	add(ownScheduler, w.Pod.SchedulerName != "")
	add(noClass, w.Pod.PriorityClassName != "" && !n.hasPriority(w.Pod.PriorityClassName))
	add(withVolumes, w.Pod.PersistentVolumes > 0)
	add(unknownResources, slices.ContainsFunc(w.Pod.Containers, func(c inventory.Container) bool { return len(knownResources(c.Requests)) < len(c.Requests) }))
}

func (n *notes) lines() (lines []string) {
	for _, difference := range differences {
		if ids := n.by[difference]; len(ids) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", plural.Count(len(ids), "workload"), difference, shorten(ids, mostNamed)))
		}
	}
	left := n.inventory.LeftOut
	if len(left.Pods) > 0 {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(left.Pods)) {
			name := "owner " + kind
			if kind == "none" {
				name = "no owner"
			}
			kinds = append(kinds, fmt.Sprintf("%d with %s", left.Pods[kind], name))
		}
		lines = append(lines, "Pods that are not of a Deployment, StatefulSet or DaemonSet are left out: "+strings.Join(kinds, ", "))
	}
	if left.Webhooks > 0 {
		lines = append(lines, fmt.Sprintf("%s of the cluster can refuse or change pods and evictions, and %s not there", plural.Count(left.Webhooks, "admission webhook configuration"), plural.Verb(left.Webhooks, "is", "are")))
	}
	if left.Autoscalers > 0 {
		lines = append(lines, fmt.Sprintf("%s not there: replicas stay as the inventory has them", plural.Are(left.Autoscalers, "HorizontalPodAutoscaler")))
	}
	for _, why := range left.NotRead {
		lines = append(lines, "Not looked at: "+why)
	}
	return lines
}
