package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Remove implements clusterdriver.Driver: first the agent and the control plane, then the namespace with all that is in it, each proven by
// the API server before the next.
func (d *Driver) Remove(ctx context.Context, name, uid string) (gone bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("removing simulated cluster %s: %w", name, err)
	}
	unlock := d.turns.lockName(name)
	defer unlock()
	namespace, err := d.readNamespace(ctx, name, uid)
	switch {
	case err == nil && namespace == nil, namespace != nil && namespace.Labels[rendering.UIDLabel] != uid: // What is another's is not what is left.
		d.forgetCluster(uid)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("removing simulated cluster %s: %w", name, err)
	}
	d.noteRemoval(uid)
	if namespace.DeletionTimestamp != nil {
		return false, nil
	}
	if err := d.removeContents(ctx, name, uid, namespace); err != nil {
		return false, fmt.Errorf("removing simulated cluster %s: %w", name, err)
	}
	return false, nil
}

// removeContents does the next step.
func (d *Driver) removeContents(ctx context.Context, name, uid string, namespace *corev1.Namespace) error {
	if err := d.enterNamespace(ctx, rendering.Cluster{Name: name, UID: uid}); err != nil {
		return err
	}
	set, err := d.readStatefulSet(ctx, name, uid)
	if err != nil {
		return err
	}
	if set != nil {
		if set.DeletionTimestamp != nil {
			return nil
		}
		// It stays until its pod is gone.
		err := d.client.Delete(ctx, set, client.Preconditions{UID: &set.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
		return wrapDelete(err, describeObject("StatefulSet", set))
	}
	left, err := d.hasPod(ctx, name, uid)
	if err != nil || left {
		return err
	}
	return wrapDelete(d.client.Delete(ctx, namespace, client.Preconditions{UID: &namespace.UID}), describeObject("Namespace", namespace))
}

func wrapDelete(err error, what string) error {
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", what, err)
	}
	return nil
}

// hasPod reports whether the control plane's pod is still there. It fails while others have pods or data in the
// namespace.
func (d *Driver) hasPod(ctx context.Context, name, uid string) (left bool, err error) {
	in := client.InNamespace(rendering.NamespaceOf(name))
	pods := &corev1.PodList{}
	if err := d.client.List(ctx, pods, in); err != nil {
		return false, fmt.Errorf("listing what is left of its pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.Labels[rendering.UIDLabel] == uid:
			left = true
		case pod.Labels[v1alpha1.ClusterNameLabel] != name: // Its hollow nodes go with the namespace.
			return false, foreignError("Pod", pod)
		}
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := d.client.List(ctx, claims, in); err != nil {
		return false, fmt.Errorf("listing what is left of its volumes: %w", err)
	}
	for i := range claims.Items {
		if claims.Items[i].Labels[rendering.UIDLabel] != uid {
			return false, foreignError("PersistentVolumeClaim", &claims.Items[i])
		}
	}
	return left, nil
}

func foreignError(kind string, object client.Object) error {
	return fmt.Errorf("%s was not made for the simulated cluster, and would be removed with its namespace: remove it, or move it elsewhere", describeObject(kind, object))
}

// noteRemoval remembers in this process that a cluster is to be removed. After a restart, the agent asks again.
func (d *Driver) noteRemoval(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removing[uid] = true
	delete(d.ensured, uid)
}

// forgetCluster drops what is known of a cluster of which nothing is left.
func (d *Driver) forgetCluster(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.removing, uid)
	delete(d.ensured, uid)
	delete(d.judged, uid)
	if known := d.proofs[uid]; known != nil {
		known.closeConnections()
		delete(d.proofs, uid)
	}
}
