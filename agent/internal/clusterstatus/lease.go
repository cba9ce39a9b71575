package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// retry is how soon a renewal that failed is tried again, and how often the Lease of another agent is read.
	retry = 2 * time.Second
)

// ErrLeaseLost says that another agent has taken the Lease that this one held. It must not go on: what it has in
// its queues was decided before. Its next start stands by.
var ErrLeaseLost = errors.New("another agent has taken the cluster's Lease")

// renewLease renews the Lease if this agent holds it, or may take it, and returns when to come again.
func (r *Reporter) renewLease(ctx context.Context, cluster *v1alpha1.Cluster, now time.Time) time.Time {
	soon := now.Add(min(retry, period(cluster)))
	taken, longest := false, longestWrite
	if r.lease == nil {
		longest = longestReturn
	}
	if !r.attempt(ctx, longest, "Lease", func(ctx context.Context) (err error) {
		taken, err = r.renew(ctx, cluster)
		return err
	}) || !taken {
		return soon
	}
	// The next renewal counts from when this one was due, not from when it was done.
	return now.Add(period(cluster))
}

// renew writes the Lease. Its times are of the agent's clock, which may be wrong: the hub judges by when it sees
// the Lease change, and so do agents that stand by.
func (r *Reporter) renew(ctx context.Context, cluster *v1alpha1.Cluster) (taken bool, err error) {
	namespace := cluster.Status.Namespace
	read := r.lease == nil || r.lease.Namespace != namespace
	if read {
		if err := r.readLease(ctx, namespace); err != nil {
			return false, err
		}
	}
	if !r.leaseHolder.mayRenew(r.lease) {
		r.lease = nil // It is read anew each time.
		return false, nil
	}
	if read {
		if err := r.checkHub(ctx, cluster); err != nil {
			r.lease = nil
			return false, err
		}
	}
	if err := r.reportFrozen(ctx, cluster); err != nil {
		r.lease = nil
		return false, err
	}
	begun := r.Clock.Now()
	next := r.lease.DeepCopy()
	if holder := ptr.Deref(next.Spec.HolderIdentity, ""); holder == "" || !r.leaseHolder.continues(holder) {
		next.Spec.AcquireTime = ptr.To(metav1.NewMicroTime(begun))
		next.Spec.LeaseTransitions = ptr.To(ptr.Deref(next.Spec.LeaseTransitions, -1) + 1)
	}
	next.Spec.HolderIdentity = ptr.To(r.Holder)
	next.Spec.RenewTime = ptr.To(metav1.NewMicroTime(begun))
	next.Spec.LeaseDurationSeconds = ptr.To(cluster.Heartbeat().GraceSeconds)
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[v1alpha1.ActedAnnotation] = r.Uptime.Uptime().String()
	r.leaseHolder.beginRenewal(next)
	r.HubIdentity.Renewing(ctx, next)
	if next.ResourceVersion == "" {
		err = r.Client.Create(ctx, next)
	} else {
		err = r.Client.Update(ctx, next)
	}
	if err != nil {
		// Another client has written or removed it, or this write came through after all: read it again.
		r.lease = nil
		return false, fmt.Errorf("writing Lease %s/%s: %w", namespace, v1alpha1.AgentLeaseName, err)
	}
	r.lease = next
	// A hold of the Lease that has lapsed meanwhile was a freeze, also if no caller asked while it had.
	r.Freeze()
	r.leaseHolder.endRenewal(next, begun)
	r.HubIdentity.Renewed(next)
	return true, nil
}

// checkHub looks at the hub before a renewal that does not follow on the one before, and at the Cluster as the hub has it: what
// the agent wrote of itself last may or may not have got through.
func (r *Reporter) checkHub(ctx context.Context, cluster *v1alpha1.Cluster) error {
	if err := r.HubIdentity.CheckLease(ctx, r.lease); err != nil {
		return err
	}
	live := &v1alpha1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(cluster), live); err != nil {
		return fmt.Errorf("getting Cluster %s: %w", cluster.Name, err)
	}
	if live.UID != cluster.UID {
		return fmt.Errorf("renewing the Lease of Cluster %s: it was made anew in this moment", cluster.Name)
	}
	r.Seen(live)
	return nil
}

// reportFrozen lets a frozen agent say so on the Cluster before it renews the Lease: a hub that hears the agent acts on what
// stands there, and after a silence that is what the agent said before it.
func (r *Reporter) reportFrozen(ctx context.Context, cluster *v1alpha1.Cluster) error {
	if _, barred := r.HubIdentity.Blocked(); !barred && !r.Freeze().Frozen {
		return nil
	}
	now := r.Cluster()
	if now == nil || now.UID != cluster.UID {
		return fmt.Errorf("renewing the Lease of Cluster %s: it was made anew in this moment", cluster.Name)
	}
	return r.writeStatus(ctx, now)
}

// outdated tells whether the Lease still keeps what it showed before a hub that is judged by now.
func (r *Reporter) outdated() bool {
	if r.lease == nil {
		return false
	}
	_, kept := r.lease.Annotations[v1alpha1.ShownRenewalAnnotation]
	_, judged := r.HubIdentity.Finding()
	return kept && judged
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
	r.Uptime.Remember(freeze.ParseUptime(lease.Annotations[v1alpha1.ActedAnnotation]))
	return nil
}

// Release gives the Lease up, so that another agent need not wait until it expires. It is for an agent that has
// stopped acting, and not to be called while Start runs.
func (r *Reporter) Release(ctx context.Context) error {
	if _, barred := r.leaseHolder.blocked(); barred || r.lease == nil {
		return nil
	}
	next := r.lease.DeepCopy()
	next.Spec.HolderIdentity = ptr.To("")
	if err := r.Client.Update(ctx, next); err != nil {
		return fmt.Errorf("giving up Lease %s/%s: %w", next.Namespace, next.Name, err)
	}
	return nil
}
