package rehearse

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

const (
	// longestOrder is how long ordering the removal may take, and longestRemoval the removal itself.
	longestOrder, longestRemoval = 30 * time.Second, 5 * time.Minute
)

// noDrain lets a drain end at once. What a rehearsal has made needs none.
var noDrain = client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"timeouts":{"drain":"0s"}}}`))

// cleanUp removes the simulated cluster, or says what is left and how to remove it. After an interrupt it does not wait for the end.
func (o *rehearsal) cleanUp(ctx context.Context) error {
	command := fmt.Sprintf("kubectl delete simulatedcluster -n %s %s", o.host, o.name)
	if o.keep {
		o.hub.Note("Kept SimulatedCluster %s/%s. To remove it with its Nodes: %s", o.host, o.name, command)
		return nil
	}
	wasInterrupted := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	if err := o.orderRemoval(ctx); err != nil {
		o.hub.Note("SimulatedCluster %s/%s is left. To remove it with its Nodes: %s", o.host, o.name, command)
		return fmt.Errorf("removing SimulatedCluster %s/%s: %w", o.host, o.name, err)
	}
	if wasInterrupted {
		o.hub.Note("SimulatedCluster %s/%s is being removed by the hub. To see when it is gone: kubectl get simulatedcluster -n %s %s", o.host, o.name, o.host, o.name)
		return nil //nolint:nilerr // The caller reports the interrupt.
	}
	o.hub.Note("Removing SimulatedCluster %s/%s …", o.host, o.name)
	return cmdutil.Within(ctx, longestRemoval, func(ctx context.Context) error {
		return cmdutil.UntilGone(ctx, o.client, &v1alpha1.SimulatedClusterList{}, client.ObjectKeyFromObject(o.shape.Cluster), &v1alpha1.SimulatedCluster{})
	}, func() error {
		return fmt.Errorf("SimulatedCluster %s/%s is still being removed after %s: see its conditions with kubectl describe simulatedcluster -n %s %s", o.host, o.name, longestRemoval, o.host, o.name)
	})
}

// orderRemoval deletes the SimulatedCluster of this rehearsal and no other.
func (o *rehearsal) orderRemoval(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longestOrder)
	defer cancel()
	if err := o.leaveOutDrains(ctx); err != nil {
		o.hub.Note("note: the drains of the removal could not all be left out, so it may take longer: %v", err)
	}
	uid := o.shape.Cluster.UID
	deleted := o.client.Delete(ctx, o.shape.Cluster, client.Preconditions{UID: &uid})
	if apierrors.IsConflict(deleted) {
		return nil // Another one has the name now.
	}
	return client.IgnoreNotFound(deleted)
}

// leaveOutDrains lets the drains of the Machines end at once.
func (o *rehearsal) leaveOutDrains(ctx context.Context) error {
	machines := &v1alpha1.MachineList{}
	if err := o.client.List(ctx, machines, client.InNamespace(o.name)); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	var problems []error
	for index := range machines.Items {
		if err := o.client.Patch(ctx, &machines.Items[index], noDrain); client.IgnoreNotFound(err) != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
