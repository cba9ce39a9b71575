package managedcluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
)

// world is a hub with one name, on which users, Open Cluster Management and this controller act in any order.
type world struct {
	cluster *v1alpha1.Cluster
	managed *clusterv1.ManagedCluster
}

// settle lets the controller act until it has nothing to do, and holds each step to the rules.
func (w *world) settle(t *rapid.T) {
	const enough = 5
	for range enough {
		before := world{w.cluster.DeepCopy(), w.managed.DeepCopy()}
		w.step(t)
		if equality.Semantic.DeepEqual(before.cluster, w.cluster) && equality.Semantic.DeepEqual(before.managed, w.managed) {
			return
		}
	}
	t.Fatalf("still busy after %d steps: %+v %+v", enough, w.cluster, w.managed)
}

func (w *world) step(t *rapid.T) {
	ours := w.isOwn()
	next := decide(observed{cluster: w.cluster.DeepCopy(), managed: w.managed.DeepCopy(), now: start})
	switch {
	case w.managed != nil && !ours && (next.remove || next.managed != nil && !equality.Semantic.DeepEqual(next.managed, w.managed)):
		t.Fatalf("wrote a ManagedCluster that the hub did not make: %+v", next)
	case w.cluster == nil && next.cluster != nil && ours:
		t.Fatalf("took its own mirror on: %+v", next.cluster)
	case w.managed == nil && next.managed != nil && w.cluster.Annotations[v1alpha1.ImportedFromAnnotation] != "":
		t.Fatalf("mirrored what came from a ManagedCluster: %+v", next.managed)
	case w.cluster != nil && next.cluster != nil && !equality.Semantic.DeepEqual(next.cluster.Spec, w.cluster.Spec):
		t.Fatalf("changed the spec of a Cluster: %+v", next.cluster.Spec)
	case w.cluster != nil && next.cluster != nil && isMirrored(w.cluster) && !equality.Semantic.DeepEqual(next.cluster.ObjectMeta, w.cluster.ObjectMeta):
		t.Fatalf("changed the labels of a Cluster that is the user's: %+v", next.cluster.ObjectMeta)
	case w.cluster == nil && next.cluster != nil && next.cluster.Accepted():
		t.Fatalf("accepted a Cluster for the user: %+v", next.cluster.Spec)
	}
	if next.cluster != nil {
		w.cluster = next.cluster
	}
	if next.managed != nil {
		if w.managed == nil {
			next.managed.UID = "own"
			inventory.RecordOwnership(next.managed)
		}
		w.managed = next.managed
	}
	if next.remove {
		w.managed = nil
	}
}

func (w *world) isOwn() bool {
	return w.managed != nil && inventory.IsOwn(w.managed, w.cluster != nil)
}

// actions are what others do.
func (w *world) actions() map[string]func(*rapid.T) {
	labels := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", v1alpha1.ImportLabel, v1alpha1.ManagedByLabel}), rapid.SampledFrom([]string{"true", "1"}), 0, 3)
	return map[string]func(*rapid.T){
		"create cluster": func(t *rapid.T) {
			if w.cluster == nil {
				w.cluster = healthy("x")
				w.cluster.Labels = labels.Draw(t, "labels")
			}
		},
		"delete cluster": func(*rapid.T) { w.cluster = nil },
		"delete managed": func(*rapid.T) { w.managed = nil },
		"silence cluster": func(*rapid.T) {
			w.onCluster(func() { say(w.cluster, v1alpha1.ClusterAgentConnectedCondition, "Unknown") })
		},
		"deny cluster":    func(*rapid.T) { w.onCluster(func() { w.cluster.Spec.Acceptance = v1alpha1.AcceptanceDenied }) },
		"relabel cluster": func(t *rapid.T) { w.onCluster(func() { w.cluster.Labels = labels.Draw(t, "labels") }) },
		"disown cluster":  func(*rapid.T) { w.onCluster(func() { w.cluster.Annotations = nil }) },
		"register managed": func(t *rapid.T) {
			if w.managed == nil {
				w.managed = &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: labels.Draw(t, "labels")}}
				delete(w.managed.Labels, v1alpha1.ManagedByLabel)
			}
		},
		"copy a mirror": func(*rapid.T) {
			if w.managed == nil {
				w.managed = &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
					Name: "x", UID: "copy", Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub},
					Annotations: map[string]string{v1alpha1.PictureUIDAnnotation: "original"},
				}}
			}
		},
		"accept managed": func(*rapid.T) {
			w.onManaged(func() {
				w.managed.Spec.HubAcceptsClient = true
				meta.SetStatusCondition(&w.managed.Status.Conditions, metav1.Condition{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue, Reason: "x"})
			})
		},
		"ask for import": func(*rapid.T) {
			w.onManaged(func() { metav1.SetMetaDataLabel(&w.managed.ObjectMeta, v1alpha1.ImportLabel, "true") })
		},
		"end import": func(*rapid.T) { w.onManaged(func() { delete(w.managed.Labels, v1alpha1.ImportLabel) }) },
		"delete managed slowly": func(*rapid.T) {
			w.onManaged(func() { w.managed.DeletionTimestamp = &metav1.Time{Time: start} })
		},
	}
}

func (w *world) onCluster(change func()) {
	if w.cluster != nil {
		change()
	}
}

func (w *world) onManaged(change func()) {
	if w.managed != nil {
		change()
	}
}

// TestNoLoop: whatever others do, the controller comes to rest, writes no ManagedCluster but its mirrors, takes on
// none of these, mirrors nothing that it took on, and never deletes a Cluster.
func TestNoLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{}
		actions := w.actions()
		for name, act := range actions {
			actions[name] = func(t *rapid.T) {
				act(t)
				existed := w.cluster != nil
				if rapid.Bool().Draw(t, "controller is quick") {
					w.settle(t)
				}
				if existed && w.cluster == nil {
					t.Fatal("deleted a Cluster")
				}
			}
		}
		actions[""] = func(t *rapid.T) { // After every action.
			copied := world{w.cluster.DeepCopy(), w.managed.DeepCopy()}
			copied.settle(t)
			copied.check(t)
		}
		t.Repeat(actions)
	})
}

// check holds a state of rest to the rules.
func (w *world) check(t *rapid.T) {
	ours := w.isOwn() && w.managed.DeletionTimestamp == nil
	imported := w.cluster != nil && w.cluster.Annotations[v1alpha1.ImportedFromAnnotation] != ""
	if ours && (w.cluster == nil || imported) {
		t.Fatalf("a mirror of nothing, or of itself: %+v", w)
	}
	if w.cluster != nil && !imported && w.managed == nil {
		t.Fatalf("not mirrored: %+v", w.cluster)
	}
	conflict := w.cluster != nil && meta.IsStatusConditionFalse(w.cluster.Status.Conditions, v1alpha1.ClusterMirroredCondition)
	foreign := w.managed != nil && !w.isOwn()
	if w.cluster != nil && conflict != (foreign && !imported) && (w.managed == nil || w.managed.DeletionTimestamp == nil) {
		t.Fatalf("conflict %v, foreign %v, imported %v", conflict, foreign, imported)
	}
}
