package report

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// renew writes the Lease. The hub judges by when it sees it change, so the agent's clock may be wrong.
func (r *Reporter) renew(ctx context.Context, cluster *v1alpha1.Cluster) error {
	namespace := cluster.Status.Namespace
	if r.lease == nil || r.lease.Namespace != namespace {
		if err := r.readLease(ctx, namespace); err != nil {
			return err
		}
	}
	next := r.lease.DeepCopy()
	next.Spec.HolderIdentity = ptr.To(r.Holder)
	next.Spec.RenewTime = ptr.To(metav1.NewMicroTime(r.Clock.Now()))
	next.Spec.LeaseDurationSeconds = ptr.To(max(cluster.Spec.Heartbeat.GraceSeconds, 1))
	var err error
	if next.ResourceVersion == "" {
		next.Spec.AcquireTime = next.Spec.RenewTime
		err = r.Client.Create(ctx, next)
	} else {
		err = r.Client.Update(ctx, next)
	}
	if err != nil {
		// Somebody else has written or removed it: read it again at the next heartbeat.
		r.lease = nil
		return fmt.Errorf("writing Lease %s/%s: %w", namespace, v1alpha1.AgentLeaseName, err)
	}
	r.lease = next
	return nil
}

func (r *Reporter) readLease(ctx context.Context, namespace string) error {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: namespace, Name: v1alpha1.AgentLeaseName}
	err := r.Client.Get(ctx, key, lease)
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.AgentLeaseName}}
	} else if err != nil {
		return fmt.Errorf("getting Lease %s: %w", key, err)
	}
	r.lease = lease
	return nil
}
