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
func (k *Verifier) CheckLease(ctx context.Context, lease *coordinationv1.Lease) error {
	cluster, err := k.live(ctx)
	if err != nil {
		return err
	}
	k.record(Hub{ClusterUID: string(cluster.UID), Renewed: shown(lease)})
	return nil
}

// Renewing prepares a Lease that is about to be written. Until the hub is judged, the Lease keeps what it showed.
func (k *Verifier) Renewing(ctx context.Context, lease *coordinationv1.Lease) {
	delete(lease.Annotations, v1alpha1.ShownRenewalAnnotation)
	k.mu.Lock()
	judged, keep := k.judged, k.hub.Renewed
	k.mu.Unlock()
	if judged {
		if keep = k.rollbackTime(ctx, renewalOf(lease)); keep.IsZero() {
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
func (k *Verifier) rollbackTime(ctx context.Context, renewal time.Time) (keep time.Time) {
	k.mu.Lock()
	last := k.hub.Renewed
	if k.storedRenewal.After(last) {
		last = k.storedRenewal
	}
	k.mu.Unlock()
	if !renewal.Before(last) {
		return time.Time{}
	}
	if !k.looking.TryLock() {
		return last // It goes better the next time.
	}
	defer k.looking.Unlock()
	bounded, cancel := context.WithTimeout(ctx, longestSave)
	defer cancel()
	if !k.loaded || k.save(bounded, at(k.stored, renewal)) != nil {
		return last
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.memory, k.hub.Renewed = at(k.memory, renewal), renewal
	return time.Time{}
}

// Renewed takes in that the hub has confirmed a renewal.
func (k *Verifier) Renewed(lease *coordinationv1.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewals++
	if _, kept := lease.Annotations[v1alpha1.ShownRenewalAnnotation]; k.judged && !kept {
		k.hub.Renewed = renewalOf(lease)
	}
}

// Verify asks the hub's API server, before something is done for a Machine, whether it is still the hub that it was.
// Blocked tells what came of it.
func (k *Verifier) Verify(ctx context.Context) error {
	if err := k.compare(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	mayBeEmpty := k.judged && k.count != nil && k.memory.EmptyAccepted
	k.mu.Unlock()
	if !mayBeEmpty {
		return nil
	}
	// A person has said that this hub may have no Machine. Now it has one; if that is lost, a person has to say so again.
	return k.check(ctx)
}

// compare asks the hub's API server whether it is still the hub that it was.
func (k *Verifier) compare(ctx context.Context) error {
	for {
		k.mu.Lock()
		begun, before, renewals := k.begun, k.hub, k.renewals
		k.mu.Unlock()
		if !begun {
			return nil
		}
		cluster, err := k.live(ctx)
		if err != nil {
			return err
		}
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: k.Cluster, Name: v1alpha1.AgentLeaseName}
		if err := k.Hub.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("getting Lease %s: %w", key, err)
		} else if apierrors.IsNotFound(err) {
			lease = &coordinationv1.Lease{}
		} else if k.Saw != nil {
			k.Saw(lease)
		}
		seen := Hub{ClusterUID: string(cluster.UID), Renewed: shown(lease)}
		if before.Mismatch(seen) == "" {
			return nil
		}
		k.mu.Lock()
		overtaken := k.renewals != renewals
		k.mu.Unlock()
		if !overtaken {
			k.record(seen)
			return nil
		}
		// What was read may be from before a renewal that the hub has confirmed meanwhile.
	}
}

// live reads the agent's Cluster.
func (k *Verifier) live(ctx context.Context) (*v1alpha1.Cluster, error) {
	cluster := &v1alpha1.Cluster{}
	if err := k.Hub.Get(ctx, client.ObjectKey{Name: k.Cluster}, cluster); err != nil {
		return nil, fmt.Errorf("getting Cluster %s: %w", k.Cluster, err)
	}
	k.Seen(cluster)
	return cluster, nil
}

// record takes in what the hub shows. What does not go on from what was known has to be judged.
func (k *Verifier) record(seen Hub) {
	k.mu.Lock()
	if k.begun && (k.judged && k.hub.Mismatch(seen) == "" || !k.judged && k.hub == seen) {
		k.mu.Unlock()
		return
	}
	if k.judged {
		// What the hub has confirmed to the last is what it has to show.
		k.memory = at(k.memory, k.hub.Renewed)
		if k.broken != nil {
			close(k.broken)
			k.broken = nil
		}
	}
	if !k.begun || k.judged {
		k.doubted = k.Clock.Now()
	}
	k.begun, k.judged, k.hub = true, false, seen
	k.sights++
	k.mu.Unlock()
	k.Changed()
	k.wake()
}

// shown is the last renewal that a Lease tells of, zero if there is none: that of before the agent knew the hub, if
// the Lease keeps it.
func shown(lease *coordinationv1.Lease) time.Time {
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
func (k *Verifier) Release(ctx context.Context) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	k.mu.Lock()
	last := at(k.memory, k.hub.Renewed)
	judged := k.judged
	k.mu.Unlock()
	if !judged || !k.loaded || reflect.DeepEqual(last, k.stored) {
		return nil
	}
	return k.save(ctx, last)
}
