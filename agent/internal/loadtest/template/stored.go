package template

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// objectOverhead is what the API server and controllers add to an object: managed fields, defaults, status. podOverhead is the
	// same for a pod, with its events.
	objectOverhead, podOverhead = 1 << 10, 4 << 10
	// compaction is how long etcd keeps what was overwritten or deleted, as kube-apiserver has it compacted.
	compaction = 5 * time.Minute
)

// footprint is what one object of a template takes in etcd.
type footprint struct {
	// bytes are those of the object, with all that controllers make of it.
	bytes float64
	// rewritten are those of the object alone, which a patch writes again.
	rewritten float64
}

// footprintOf returns what an object of a template takes at most. Pods of a DaemonSet are as many as the Nodes, and a CronJob makes its pods
// every minute.
func (t *Template) footprintOf(first *unstructured.Unstructured, nodes int, timeout time.Duration) footprint {
	size := float64(t.largest + objectOverhead)
	pods := float64(t.mostPods)
	switch first.GetKind() {
	case "Pod":
		return footprint{size + podOverhead, size + podOverhead}
	case "DaemonSet":
		pods = float64(nodes)
	case "CronJob":
		pods *= timeout.Minutes() + 1
	}
	if pods == 0 {
		return footprint{size, size}
	}
	// Beside its pods, an object has a copy of the template: a ReplicaSet, a ControllerRevision or Jobs.
	return footprint{2*size + pods*(size+podOverhead), size}
}

// storedBytes is how many bytes a load has in etcd at most, and by which template most of them are: the objects that are there at a time,
// and what was written in the time that etcd keeps it.
func storedBytes(load *v1alpha1.Load, of map[string]footprint) (most float64, by string) {
	live := map[string]float64{}
	namespaces := float64(max(load.Namespaces, 1))
	for s := range load.Steps {
		step := &load.Steps[s]
		history := map[string]float64{}
		for p := range step.Phases {
			phase := &step.Phases[p]
			history[phase.Template] += overwrittenBytes(phase, namespaces, max(step.Iterations, 1), of[phase.Template])
		}
		for range max(step.Iterations, 1) {
			addObjects(step, live, namespaces)
			if sum, largest := sumOf(live, history, of); sum > most {
				most, by = sum, largest
			}
			removeObjects(step, live, namespaces)
		}
	}
	return most, by
}

// overwrittenBytes are the bytes that a phase writes in the time that etcd keeps them, beside the objects that are there.
func overwrittenBytes(phase *v1alpha1.LoadPhase, namespaces float64, iterations int32, of footprint) float64 {
	qps := float64(max(phase.Tuning.QPS, 1))
	requests := float64(phase.Replicas) * namespaces * float64(iterations)
	if phase.Duration != nil {
		requests = qps * phase.Duration.Seconds() * float64(iterations)
	}
	requests = min(requests, qps*compaction.Seconds())
	switch {
	case phase.Action == v1alpha1.LoadChurn, phase.Action == v1alpha1.LoadCreate && iterations > 1:
		return requests * of.bytes
	case phase.Action == v1alpha1.LoadPatch:
		return requests * of.rewritten
	}
	return 0
}

// addObjects adds the objects of one iteration. Phases continue side by side, so what is deleted may be there until the end.
func addObjects(step *v1alpha1.LoadStep, live map[string]float64, namespaces float64) {
	for _, phase := range step.Phases {
		if phase.Action == v1alpha1.LoadCreate {
			live[phase.Template] += float64(phase.Replicas) * namespaces
		}
	}
}

// removeObjects takes away what one iteration deletes.
func removeObjects(step *v1alpha1.LoadStep, live map[string]float64, namespaces float64) {
	for _, phase := range step.Phases {
		switch {
		case phase.Action == v1alpha1.LoadDelete && phase.Replicas == 0:
			live[phase.Template] = 0
		case phase.Action == v1alpha1.LoadDelete:
			live[phase.Template] = max(0, live[phase.Template]-float64(phase.Replicas)*namespaces)
		}
	}
}

// sumOf adds up what is there and what was, and names the template that has most of it.
func sumOf(live, history map[string]float64, of map[string]footprint) (sum float64, by string) {
	largest := -1.0
	for template, each := range of {
		bytes := live[template]*each.bytes + history[template]
		sum += bytes
		if bytes > largest || bytes == largest && template < by {
			largest, by = bytes, template
		}
	}
	return sum, by
}

// inBytes is a number of bytes for people.
func inBytes(bytes float64) string {
	const gib, tib = 1 << 30, 1 << 40
	switch {
	case bytes >= tib:
		return fmt.Sprintf("%.3gTi", bytes/tib)
	case bytes >= gib:
		return fmt.Sprintf("%.3gGi", bytes/gib)
	}
	return resource.NewQuantity((int64(bytes)>>20+1)<<20, resource.BinarySI).String()
}
