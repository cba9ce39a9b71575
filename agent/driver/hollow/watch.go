package hollow

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// watchPods asks the agent to look at a Machine whenever its pod changes in a way that stateOf sees.
func (d *Driver) watchPods(ctx context.Context) error {
	if d.environment.Host.Informers == nil {
		return nil
	}
	informer, err := d.environment.Host.Informers.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: d.podChanged,
		UpdateFunc: func(before, after any) {
			if podDiffers(before, after) {
				d.podChanged(after)
			}
		},
		DeleteFunc: d.podChanged,
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

func (d *Driver) podChanged(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok && pod.Labels[v1alpha1.MachineNameLabel] != "" {
		d.environment.Changed(pod.Labels[v1alpha1.MachineNameLabel])
	}
}

func podDiffers(before, after any) bool {
	a, aOK := before.(*corev1.Pod)
	b, bOK := after.(*corev1.Pod)
	if !aOK || !bOK || a.UID != b.UID || a.Annotations[configurationHashAnnotation] != b.Annotations[configurationHashAnnotation] {
		return true
	}
	stateA, messageA := stateOf(a)
	stateB, messageB := stateOf(b)
	return stateA != stateB || messageA != messageB
}
