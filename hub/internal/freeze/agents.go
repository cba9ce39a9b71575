package freeze

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

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
