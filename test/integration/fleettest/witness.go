package fleettest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// Witness watches everything that belongs to one pool.
type Witness struct {
	Machines, Pods, Nodes *Journal
}

// Watch starts to watch a pool of member, until the spec or suite that calls it ends.
func (f *Fleet) Watch(ctx context.Context, member *localfleet.Member, pool string) *Witness {
	GinkgoHelper()
	target, err := member.Cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	scheme := f.HubClient.Scheme()
	labelled := client.MatchingLabels{PoolLabel: pool}
	// Pods carry no label of the pool; they are named after their Machines, and those after their pool.
	named := func(o client.Object) bool { return strings.HasPrefix(o.GetName(), pool+"-") }
	return &Witness{
		Machines: keepJournal(ctx, subject{
			kind: "Machine", config: f.HubConfig, scheme: scheme, list: &v1alpha1.MachineList{},
			options: []client.ListOption{client.InNamespace(member.Name), labelled}, ready: isReady,
		}),
		Pods: keepJournal(ctx, subject{
			kind: "Pod", config: target, scheme: scheme, list: &corev1.PodList{},
			options: []client.ListOption{client.HasLabels{v1alpha1.MachineNameLabel}}, counts: named,
		}),
		Nodes: keepJournal(ctx, subject{
			kind: "Node", config: target, scheme: scheme, list: &corev1.NodeList{},
			options: []client.ListOption{labelled}, ready: isReady,
		}),
	}
}

// Doomed is how many Machines have been ordered to go so far.
func (w *Witness) Doomed() int { return len(w.Machines.Ending()) }

// Each calls do for every journal.
func (w *Witness) Each(do func(*Journal)) {
	for _, j := range []*Journal{w.Machines, w.Pods, w.Nodes} {
		do(j)
	}
}

// Expect says how the pool has fared since the witness came: exactly so many Machines made, the first ones
// included, and so many deleted, each with one pod and one Node, and no pod or Node gone whose Machine was not
// ordered to go.
func (w *Witness) Expect(ctx context.Context, wasMade, wasDeleted int) {
	GinkgoHelper()
	w.Each(func(j *Journal) {
		j.CatchUp(ctx)
		Expect(j.Verdict()).To(BeEmpty())
		Expect(j.Made()).To(HaveLen(wasMade), "every %s that ever was", j.kind)
		Expect(j.Ending()).To(HaveLen(wasDeleted), "every %s that was deleted", j.kind)
		Expect(j.Ending()).To(Equal(w.Machines.Ending()), "a %s goes for its Machine alone", j.kind)
	})
}

// isReady reports whether an object says that it is Ready.
func isReady(object client.Object) bool {
	switch object := object.(type) {
	case *v1alpha1.Machine:
		return MachineReady(object)
	case *corev1.Node:
		return NodeReady(*object)
	case *corev1.Pod:
		return slices.ContainsFunc(object.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	}
	return false
}

// readinessOf is what an object says of its readiness, for messages.
func readinessOf(object client.Object) string {
	switch object := object.(type) {
	case *v1alpha1.Machine:
		return fmt.Sprintf("%s, %+v", object.Status.Phase, meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ReadyCondition))
	case *corev1.Node:
		return fmt.Sprintf("%+v", object.Status.Conditions)
	case *corev1.Pod:
		return fmt.Sprintf("on %s, %s %s, by %s, %+v, %+v", object.Spec.NodeName, object.Status.Phase, object.Status.Reason,
			statusWriter(object), object.Status.Conditions, object.Status.ContainerStatuses)
	}
	return "it says no more"
}

// statusWriter is who wrote the status of an object last.
func statusWriter(object client.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "status" && !entry.Time.Before(last.Time) {
			last = entry
		}
	}
	return last.Manager
}

func restartsOf(object client.Object) int32 {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return 0
	}
	var restarts int32
	for _, container := range pod.Status.ContainerStatuses {
		restarts += container.RestartCount
	}
	return restarts
}
