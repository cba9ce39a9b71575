// Package leader reports whether this hub is still the one that was elected.
package leader

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Lease is the Lease for which hubs are elected, and the name under which this one stands for it. Election ends a hub that has lost its
// Lease, but only when it notices: one that was stopped and resumed continues for up to the deadline of a renewal.
type Lease struct {
	// Lock is what the election uses.
	Lock *resourcelock.LeaseLock
}

// NewLease returns the Lease of a hub, which gets some labels when the hub is elected.
func NewLease(config *rest.Config, namespace, name string, labels map[string]string) (*Lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the name of the host: %w", err)
	}
	c, err := coordinationv1client.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("making a client for the leader's lease: %w", err)
	}
	return &Lease{Lock: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: c, Labels: labels,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}}, nil
}

// HeldUntil reads the Lease from the API server, and returns until when no other hub can be elected if this one does not renew it, by
// the clock of this one. It is zero if another hub, or none, holds it.
func (l *Lease) HeldUntil(ctx context.Context) (time.Time, error) {
	lease, err := l.Lock.Client.Leases(l.Lock.LeaseMeta.Namespace).Get(ctx, l.Lock.LeaseMeta.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the leader's lease: %w", err)
	}
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity != l.Lock.Identity() || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return time.Time{}, nil
	}
	return spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second), nil
}
