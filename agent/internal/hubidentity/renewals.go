package hubidentity

import (
	"context"
	"fmt"
	"reflect"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// precision is that of a Lease's times.
const precision = time.Microsecond

// CheckLease looks at the hub before this agent renews a Lease that it has just read, or makes it if there is none.
func (v *Verifier) CheckLease(ctx context.Context, lease *coordinationv1.Lease) error {
	cluster, err := v.readCluster(ctx)
	if err != nil {
		return err
	}
	v.recordSeen(Hub{ClusterUID: string(cluster.UID), Renewed: shownRenewal(lease)})
	return nil
}

// Renewing prepares a Lease that is about to be written. Until the hub is judged, the Lease keeps what it showed.
func (v *Verifier) Renewing(ctx context.Context, lease *coordinationv1.Lease) {
	delete(lease.Annotations, v1alpha1.ShownRenewalAnnotation)
	v.mu.Lock()
	judged, keep := v.judged, v.hub.Renewed
	v.mu.Unlock()
	if judged {
		if keep = v.rollbackTime(ctx, renewalOf(lease)); keep.IsZero() {
			return
		}
	}
	text := ""
	if !keep.IsZero() {
		text = keep.UTC().Format(time.RFC3339Nano)
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[v1alpha1.ShownRenewalAnnotation] = text
}

// rollbackTime makes ready for a renewal by a clock that is behind the one before or was set back: by what is known, a hub
// that shows it would have lost renewals. If the memory cannot be set back first, it returns what the Lease has to
// keep; else zero.
func (v *Verifier) rollbackTime(ctx context.Context, renewal time.Time) (keep time.Time) {
	v.mu.Lock()
	last := v.hub.Renewed
	if v.storedRenewal.After(last) {
		last = v.storedRenewal
	}
	v.mu.Unlock()
	if !renewal.Before(last) {
		return time.Time{}
	}
	if !v.looking.TryLock() {
		return last // It goes better the next time.
	}
	defer v.looking.Unlock()
	bounded, cancel := context.WithTimeout(ctx, longestSave)
	defer cancel()
	if !v.loaded || v.saveMemory(bounded, withRenewal(v.stored, renewal)) != nil {
		return last
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.memory, v.hub.Renewed = withRenewal(v.memory, renewal), renewal
	return time.Time{}
}

// Renewed takes in that the hub has confirmed a renewal.
func (v *Verifier) Renewed(lease *coordinationv1.Lease) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.renewals++
	if _, kept := lease.Annotations[v1alpha1.ShownRenewalAnnotation]; v.judged && !kept {
		v.hub.Renewed = renewalOf(lease)
	}
}

// Verify asks the hub's API server, before something is done for a Machine, whether it is still the hub that it was.
// Blocked tells what came of it.
func (v *Verifier) Verify(ctx context.Context) error {
	if err := v.compareHub(ctx); err != nil {
		return err
	}
	v.mu.Lock()
	mayBeEmpty := v.judged && v.count != nil && v.memory.EmptyAccepted
	v.mu.Unlock()
	if !mayBeEmpty {
		return nil
	}
	// A person has said that this hub may have no Machine. Now it has one; if that is lost, a person has to say so again.
	return v.checkHub(ctx)
}

// compareHub asks the hub's API server whether it is still the hub that it was.
func (v *Verifier) compareHub(ctx context.Context) error {
	for {
		v.mu.Lock()
		hubSeen, before, renewals := v.hubSeen, v.hub, v.renewals
		v.mu.Unlock()
		if !hubSeen {
			return nil
		}
		cluster, err := v.readCluster(ctx)
		if err != nil {
			return err
		}
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: v.Cluster, Name: v1alpha1.AgentLeaseName}
		if err := v.Hub.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("getting Lease %s: %w", key, err)
		} else if apierrors.IsNotFound(err) {
			lease = &coordinationv1.Lease{}
		} else if v.Saw != nil {
			v.Saw(lease)
		}
		seen := Hub{ClusterUID: string(cluster.UID), Renewed: shownRenewal(lease)}
		if before.Mismatch(seen) == "" {
			return nil
		}
		v.mu.Lock()
		overtaken := v.renewals != renewals
		v.mu.Unlock()
		if !overtaken {
			v.recordSeen(seen)
			return nil
		}
		// What was read may be from before a renewal that the hub has confirmed meanwhile.
	}
}

// readCluster reads the agent's Cluster.
func (v *Verifier) readCluster(ctx context.Context) (*v1alpha1.Cluster, error) {
	cluster := &v1alpha1.Cluster{}
	if err := v.Hub.Get(ctx, client.ObjectKey{Name: v.Cluster}, cluster); err != nil {
		return nil, fmt.Errorf("getting Cluster %s: %w", v.Cluster, err)
	}
	v.Last.Seen(cluster)
	return cluster, nil
}

// recordSeen takes in what the hub shows. What does not continue from what was known has to be judged.
func (v *Verifier) recordSeen(seen Hub) {
	v.mu.Lock()
	if v.hubSeen && (v.judged && v.hub.Mismatch(seen) == "" || !v.judged && v.hub == seen) {
		v.mu.Unlock()
		return
	}
	if v.judged {
		// What the hub has confirmed to the last is what it has to show.
		v.memory = withRenewal(v.memory, v.hub.Renewed)
		if v.broken != nil {
			close(v.broken)
			v.broken = nil
		}
	}
	if !v.hubSeen || v.judged {
		v.doubted = v.Clock.Now()
	}
	v.hubSeen, v.judged, v.hub = true, false, seen
	v.sights++
	v.mu.Unlock()
	v.Changed()
	v.wakeRun()
}

// shownRenewal is the last renewal that a Lease tells of, zero if there is none: the one from before the agent knew the hub, if
// the Lease keeps it.
func shownRenewal(lease *coordinationv1.Lease) time.Time {
	kept, ok := lease.Annotations[v1alpha1.ShownRenewalAnnotation]
	if !ok {
		return renewalOf(lease)
	}
	renewed, err := time.Parse(time.RFC3339Nano, kept)
	if err != nil {
		return time.Time{} // There was no Lease.
	}
	return renewed.UTC()
}

func renewalOf(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.UTC().Truncate(precision)
}

// Release stores the last renewal that the hub has confirmed. It is for an agent that ends.
func (v *Verifier) Release(ctx context.Context) error {
	v.looking.Lock()
	defer v.looking.Unlock()
	v.mu.Lock()
	last := withRenewal(v.memory, v.hub.Renewed)
	judged := v.judged
	v.mu.Unlock()
	if !judged || !v.loaded || reflect.DeepEqual(last, v.stored) {
		return nil
	}
	return v.saveMemory(ctx, last)
}
