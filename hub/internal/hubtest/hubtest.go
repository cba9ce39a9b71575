// Package hubtest is what the tests of the hub's controllers have in common: objects to work on, a client
// that counts writes, and a stand-in for the agent.
package hubtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// ErrRefused is what Refuse answers.
var ErrRefused = errors.New("refused")

// Refuse is c, but creates and patches nothing in the namespaces that are refused at that time.
func Refuse(c client.WithWatch, refused map[string]bool) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if refused[object.GetNamespace()] {
				return ErrRefused
			}
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if refused[object.GetNamespace()] {
				return ErrRefused
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
}

// Outdated returns a client that lists Clusters as they were before they had labels, as a cache may that lags.
func Outdated(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if clusters, are := list.(*v1alpha1.ClusterList); are {
				for i := range clusters.Items {
					clusters.Items[i].Labels = nil
				}
			}
			return err
		},
	})
}

// parallel are the tests that run beside others.
var parallel sync.Map

// RunInParallel lets a test run beside others, however often it is called. What such tests share is the API server, for which they mostly
// wait: each has a namespace and a clock of its own.
func RunInParallel(t *testing.T) {
	if _, does := parallel.LoadOrStore(t, true); !does {
		t.Parallel()
	}
}

// Name is a name that no other test has.
func Name() string { return "c-" + rand.String(8) }

// Writes counts writes by what they are, such as "create Machine" or "patch Machine/status".
type Writes struct {
	mu     sync.Mutex
	counts map[string]int
}

// Counts returns the writes so far, and starts over.
func (w *Writes) Counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := w.counts
	w.counts = nil
	if counts == nil {
		counts = map[string]int{}
	}
	return counts
}

// Total is the number of writes so far, and starts over.
func (w *Writes) Total() int {
	total := 0
	for count := range maps.Values(w.Counts()) {
		total += count
	}
	return total
}

// Add counts one write.
func (w *Writes) Add(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[what]++
}

// Count is a client whose writes are counted.
func (w *Writes) Count(c client.WithWatch) client.WithWatch {
	kind := func(object client.Object) string {
		gvk, err := c.GroupVersionKindFor(object)
		if err != nil {
			return fmt.Sprintf("%T", object)
		}
		return gvk.Kind
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			w.Add("create " + kind(object))
			return c.Create(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			w.Add("delete " + kind(object))
			return c.Delete(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			w.Add("update " + kind(object))
			return c.Update(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			w.Add("patch " + kind(object))
			return c.Patch(ctx, object, patch, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			w.Add(fmt.Sprintf("apply %T", object))
			return c.Apply(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			w.Add("patch " + kind(object) + "/" + subresource)
			return c.SubResource(subresource).Patch(ctx, object, patch, options...)
		},
	})
}

// Cluster creates a Cluster that the hub has accepted, with its namespace, as the Cluster controller leaves it.
func Cluster(t *testing.T, c client.Client) *v1alpha1.Cluster {
	t.Helper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	Create(t, c, cluster)
	Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name, Labels: map[string]string{
		v1alpha1.ClusterNameLabel: cluster.Name, v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub,
	}}})
	cluster.Status.Namespace = cluster.Name
	SetCondition(t, c, cluster, &cluster.Status.Conditions, v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	return cluster
}

// SetCondition writes a condition of object's status.
func SetCondition(t *testing.T, c client.Client, object client.Object, list *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	meta.SetStatusCondition(list, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "said by the test"})
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatalf("writing a condition: %v", err)
	}
}

// Freeze lets cluster be frozen, or no longer, from now on, as the Cluster controller does it.
func Freeze(t *testing.T, c client.Client, cluster *v1alpha1.Cluster, verdict freeze.Verdict, now time.Time) {
	t.Helper()
	freeze.RecordOnCluster(cluster, verdict, now)
	if err := c.Status().Update(t.Context(), cluster); err != nil {
		t.Fatalf("writing a freeze: %v", err)
	}
}

// Create creates object.
func Create(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T: %v", object, err)
	}
}

// Template is a valid template whose Machines carry labels.
func Template(labels map[string]string) v1alpha1.MachineTemplate {
	return v1alpha1.MachineTemplate{
		Metadata: v1alpha1.TemplateMetadata{Labels: labels},
		Spec: v1alpha1.MachineTemplateBody{
			Versions:       v1alpha1.MachineVersions{Kubelet: "v1.36.2"},
			ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "small"}},
		},
	}
}

// Machines lists the Machines of a namespace.
func Machines(t *testing.T, c client.Client, namespace string) []v1alpha1.Machine {
	t.Helper()
	list := &v1alpha1.MachineList{}
	if err := c.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatalf("listing machines: %v", err)
	}
	return list.Items
}

// MarkReady does what the agent does when a Machine's Node is ready, or ready no longer.
func MarkReady(t *testing.T, c client.Client, machine *v1alpha1.Machine, ready bool, at time.Time) {
	t.Helper()
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	before := machine.DeepCopy()
	machine.Status.Phase = v1alpha1.MachineRunning
	machine.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ReadyCondition, Status: status, Reason: v1alpha1.ReasonReady, LastTransitionTime: metav1.NewTime(at),
	}}
	conditions.ReconcileMachine(&machine.Status, machine.DeletionTimestamp != nil, at)
	if err := c.Status().Patch(t.Context(), machine, client.MergeFrom(before)); err != nil {
		t.Fatalf("marking a machine: %v", err)
	}
}

// FinishDeletions does what the agent does last: it lets the Machines go that are being deleted.
func FinishDeletions(t *testing.T, c client.Client, namespace string) (gone int) {
	t.Helper()
	for _, machine := range Machines(t, c, namespace) {
		if machine.DeletionTimestamp == nil {
			continue
		}
		before := machine.DeepCopy()
		machine.Finalizers = nil
		if err := c.Patch(t.Context(), &machine, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			t.Fatalf("removing the agent's finalizer: %v", err)
		}
		gone++
	}
	return gone
}

// CPUTime is the least CPU time that work took of some runs, on a thread of its own.
func CPUTime(t testing.TB, runs int, work func() error) time.Duration {
	t.Helper()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	used := func() time.Duration {
		var spent unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &spent); err != nil {
			t.Fatal(err)
		}
		return time.Duration(spent.Nano())
	}
	var took []time.Duration
	for range runs {
		before := used()
		if err := work(); err != nil {
			t.Fatal(err)
		}
		took = append(took, used()-before)
	}
	return slices.Min(took)
}
