package freeze

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Agents remembers the agents that this process has heard. What an earlier hub wrote about an agent does not count: a hub
// that has just started changes nothing in a cluster whose agent it has not heard. The zero value is ready for use and has heard none.
type Agents struct {
	mu          sync.Mutex
	heard       map[string]bool
	subscribers []reconciler.News
	// renewed is when each agent's Lease was renewed last, by the clock of this process. awaited are the clusters whose next renewal
	// is news.
	renewed map[string]time.Time
	awaited map[string]bool
}

// NoteRenewal notes that the Lease of a cluster's agent was renewed.
func (a *Agents) NoteRenewal(cluster string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.renewed == nil {
		a.renewed = map[string]time.Time{}
	}
	a.renewed[cluster] = at
	if a.awaited[cluster] {
		delete(a.awaited, cluster)
		a.sendEvent(cluster)
	}
}

// RenewedAt is when this process saw the Lease of a cluster's agent renewed last; zero if it did not.
func (a *Agents) RenewedAt(cluster string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewed[cluster]
}

// AwaitRenewal makes the next renewal of a cluster's agent news, or that which came after what was known at last.
func (a *Agents) AwaitRenewal(cluster string, last time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.renewed[cluster].After(last) {
		a.sendEvent(cluster)
		return
	}
	if a.awaited == nil {
		a.awaited = map[string]bool{}
	}
	a.awaited[cluster] = true
}

func (a *Agents) sendEvent(cluster string) {
	news := event.GenericEvent{Object: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}}
	for _, subscriber := range a.subscribers {
		subscriber.Send(news)
	}
}

// Hear notes that the agent of cluster has renewed its Lease. The first time is news.
func (a *Agents) Hear(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.heard[cluster] {
		return
	}
	if a.heard == nil {
		a.heard = map[string]bool{}
	}
	a.heard[cluster] = true
	a.sendEvent(cluster)
}

// Heard reports whether the agent of cluster has been heard.
func (a *Agents) Heard(cluster string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard[cluster]
}

// Forget makes the next renewal news again.
func (a *Agents) Forget(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.heard, cluster)
}

// News returns a channel with the Cluster, by name only, of every agent that is heard for the first time.
func (a *Agents) News() <-chan event.GenericEvent {
	a.mu.Lock()
	defer a.mu.Unlock()
	subscriber := reconciler.NewNews()
	a.subscribers = append(a.subscribers, subscriber)
	return subscriber
}

// Verdict freezes what belongs to a cluster that is said to be connected until its agent was heard. It is
// Passing: it ends within a period of the agent's Lease, or the cluster stops counting as connected.
func (a *Agents) Verdict(cluster *v1alpha1.Cluster) Verdict {
	if cluster == nil || !meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition) {
		return Verdict{} // There has never been an agent to hear.
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.heard[cluster.Name] {
		return Verdict{}
	}
	return Verdict{
		Frozen: true, Passing: true, Reason: v1alpha1.ReasonStarting,
		Message: fmt.Sprintf("the hub has not heard from the agent of Cluster %s since the hub started or the agent was silent", cluster.Name),
	}
}

// WriteLabel brings FrozenLabel of object in line with conditions, those that its status is about to get. Label and
// condition are written one after the other in each reconciliation, both from what the world looks like then: if one of
// the two writes is lost, the next reconciliation makes it. The lock keeps the status, which is written next, from
// resting on another version of object than it was computed from.
func WriteLabel(ctx context.Context, c client.Client, object client.Object, conditions []metav1.Condition) error {
	wanted := Label(conditions)
	if current, found := object.GetLabels()[v1alpha1.FrozenLabel]; current == wanted && found == (wanted != "") {
		return nil
	}
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying %T: it is not an object", object)
	}
	after, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying %T: it is not an object", object)
	}
	labels := after.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	if delete(labels, v1alpha1.FrozenLabel); wanted != "" {
		labels[v1alpha1.FrozenLabel] = wanted
	}
	after.SetLabels(labels)
	switch err := c.Patch(ctx, after, reconciler.MergeFromWithLock(before)); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("writing the label %s: %w", v1alpha1.FrozenLabel, err)
	}
	object.SetLabels(after.GetLabels())
	object.SetResourceVersion(after.GetResourceVersion())
	return nil
}

// ClusterChanged lets changes of a Cluster pass that freeze or thaw what belongs to it.
func ClusterChanged() predicate.Predicate {
	return reconciler.Changed(func(cluster *v1alpha1.Cluster) any {
		return OfCluster(cluster.Name, cluster.Name, cluster)
	})
}

// DeploymentChanged lets changes of a MachineDeployment pass that freeze or thaw what belongs to it.
func DeploymentChanged() predicate.Predicate {
	return reconciler.Changed(func(deployment *v1alpha1.MachineDeployment) any {
		return First(
			OfAnnotation("MachineDeployment", deployment),
			OfCondition("MachineDeployment", deployment, deployment.Status.Conditions),
		)
	})
}
