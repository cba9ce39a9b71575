// Package drain empties Nodes. It evicts through the eviction API, which keeps PodDisruptionBudgets, and leaves
// the pods of DaemonSets and the mirrors of static pods where they are; what counts as such is decided by
// kubectl's drain library.
//
// A drain takes no worker: each Round evicts what can be evicted now and says what is left. The caller looks
// again a while later, until nothing is left or until its time is over; policy.go judges both. What is remembered
// between two rounds only spares work: which pods were tried, and whose pods come back (refill.go).
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/drain"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	nodes "github.com/hollowfleet/hollowfleet/agent/internal/node"
)

const (
	// roundTimeout bounds a round, so that it holds no worker.
	roundTimeout = 10 * time.Second
	// maxEvictions bounds the pods that a round evicts; the rest comes with the next. A pod that a budget holds does not
	// count: else those that come first in the list would keep all others from their turn.
	maxEvictions = 50
)

// Drainer drains the Nodes of one cluster.
type Drainer struct {
	client   kubernetes.Interface
	clock    clock.PassiveClock
	downtime freeze.Downtime

	mu sync.Mutex
	// tried has, by the name of a Node that is being drained, the UIDs of its pods whose eviction the API server has
	// answered. It is only a memory: after a restart each pod is tried once more.
	tried map[string]sets.Set[types.UID]
	// refills has, by the name of such a Node, what is known of owners that make new pods there.
	refills map[string]*refills
}

// New returns a Drainer. Its client must be gated: each eviction passes the freeze gate. downtime tells which times do
// not count.
func New(client kubernetes.Interface, clock clock.PassiveClock, downtime freeze.Downtime) *Drainer {
	return &Drainer{client: client, clock: clock, downtime: downtime, tried: map[string]sets.Set[types.UID]{}, refills: map[string]*refills{}}
}

// Forget forgets a Node that is drained no more.
func (d *Drainer) Forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tried, node)
	delete(d.refills, node)
}

// refillsOn returns what is known of the owners of the pods of a Node. One Node is drained by one worker at a time.
func (d *Drainer) refillsOn(node string) *refills {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refills[node] == nil {
		d.refills[node] = &refills{}
	}
	return d.refills[node]
}

// triedOn returns the pods of a Node that have been tried in this or an earlier round. One Node is drained by one worker
// at a time.
func (d *Drainer) triedOn(node string) sets.Set[types.UID] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tried[node] == nil {
		d.tried[node] = sets.New[types.UID]()
	}
	return d.tried[node]
}

func (d *Drainer) timeSince(t time.Time) time.Duration {
	return d.clock.Since(t) - d.downtime.FrozenSince(t)
}

// Round evicts what can be evicted from node now, and returns what is left. The error of a freeze ends it.
func (d *Drainer) Round(ctx context.Context, node *corev1.Node) (Round, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	helper := d.newHelper(ctx)
	list, errs := helper.GetPodsForDeletion(node.Name)
	if len(errs) > 0 {
		return Round{}, fmt.Errorf("listing the pods of node %s: %w", node.Name, errors.Join(errs...))
	}
	// Pods can end only on a Node whose kubelet reports.
	evict, leaving := Split(list.Pods(), !nodes.Ready(node), d.timeSince)
	var round Round
	for i := range leaving {
		round.Leaving = append(round.Leaving, leavingName(&leaving[i]))
	}
	evict = d.refillsOn(node.Name).holdBack(evict, leaving, d.clock.Now(), &round)
	tried := d.triedOn(node.Name)
	refused, err := evictAll(ctx, helper, untriedFirst(fromAnywhere(evict), tried), tried, &round)
	if err != nil {
		return round, err
	}
	if len(refused) > 0 {
		budgets, err := d.listBudgets(ctx, refused)
		if err != nil {
			// What the round came to is known all the same.
			klog.FromContext(ctx).Info("Leaving out the names of the disruption budgets that block pods", "Node", klog.KObj(node), "error", err)
		}
		round.Misconfigured = Misconfigured(refused, budgets)
	}
	return round, nil
}

// newHelper decides as kubectl does with --ignore-daemonsets --delete-emptydir-data --force.
func (d *Drainer) newHelper(ctx context.Context) *drain.Helper {
	return &drain.Helper{
		Ctx: ctx, Client: d.client, Force: true, GracePeriodSeconds: -1, IgnoreAllDaemonSets: true,
		DeleteEmptyDirData: true, Out: io.Discard, ErrOut: io.Discard,
	}
}

// fromAnywhere returns pods in their order, but from one of them on that is chosen again in each round: an API server
// that answers slowly leaves a round with pods that it has not come to, and these are not always the same.
func fromAnywhere(pods []corev1.Pod) []corev1.Pod {
	if len(pods) == 0 {
		return nil
	}
	first := rand.IntN(len(pods))
	return slices.Concat(pods[first:], pods[:first])
}

// untriedFirst returns pods in their order, those first that have not been tried yet: so each one is tried, however few a
// round comes to.
func untriedFirst(pods []corev1.Pod, tried sets.Set[types.UID]) []corev1.Pod {
	ordered := make([]corev1.Pod, 0, len(pods))
	for _, before := range []bool{false, true} {
		for i := range pods {
			if tried.Has(pods[i].UID) == before {
				ordered = append(ordered, pods[i])
			}
		}
	}
	return ordered
}

// evictAll evicts pods one by one, enters them into round and into tried, and returns those that a budget held back.
func evictAll(ctx context.Context, helper *drain.Helper, pods []corev1.Pod, tried sets.Set[types.UID], round *Round) ([]corev1.Pod, error) {
	var refused []corev1.Pod
	evicted := 0
	later := func(pod *corev1.Pod) {
		round.More = round.More || evicted >= maxEvictions || !tried.Has(pod.UID)
		round.Refused = append(round.Refused, Refusal{Pod: nameOf(pod), Why: "waiting for its turn"})
	}
	for i := range pods {
		pod := &pods[i]
		if evicted >= maxEvictions || ctx.Err() != nil {
			later(pod)
			continue
		}
		err := helper.EvictPod(*pod, policyv1.SchemeGroupVersion)
		var frozen *freeze.Error
		if errors.As(err, &frozen) {
			return nil, fmt.Errorf("evicting pod %s: %w", nameOf(pod), err)
		}
		if err != nil && ctx.Err() != nil {
			later(pod) // The round has ended, and the API server has not answered.
			continue
		}
		tried.Insert(pod.UID)
		switch {
		case apierrors.IsNotFound(err):
		case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			// A namespace that is going takes its pods with it.
			evicted++
			round.Leaving = append(round.Leaving, nameOf(pod))
		default:
			round.Refused = append(round.Refused, Refusal{Pod: nameOf(pod), Why: explainRefusal(err)})
			refused = append(refused, *pod)
		}
	}
	return refused, nil
}

// explainRefusal tells what refused an eviction. Of a refusal for a budget's sake only the cause names the budget and its counts.
func explainRefusal(err error) string {
	if cause, found := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); found {
		return cause.Message
	}
	return err.Error()
}

// listBudgets lists the disruption budgets of the namespaces of pods.
func (d *Drainer) listBudgets(ctx context.Context, pods []corev1.Pod) ([]policyv1.PodDisruptionBudget, error) {
	namespaces := sets.New[string]()
	for i := range pods {
		namespaces.Insert(pods[i].Namespace)
	}
	var all []policyv1.PodDisruptionBudget
	for _, namespace := range sets.List(namespaces) {
		list, err := d.client.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing the disruption budgets of namespace %s: %w", namespace, err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// leavingName is the name of a pod that is being deleted, with the finalizers that keep it.
func leavingName(pod *corev1.Pod) string {
	if len(pod.Finalizers) == 0 {
		return nameOf(pod)
	}
	return nameOf(pod) + ", kept by finalizers: " + strings.Join(pod.Finalizers, ", ")
}

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
