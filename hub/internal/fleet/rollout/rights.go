package rollout

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

// ownRights reads with the rights of a user who looks at a fleet. They need not have the right to see kept templates, approvals, or who
// wrote a record: what they may not see is as if it were not there. The hub itself never reads like this: for it, a missing right is an
// error, and no gate is passed by one.
type ownRights struct{ client.Client }

// List implements client.Reader.
func (u ownRights) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := u.Client.List(ctx, list, options...)
	switch list.(type) {
	case *appsv1.ControllerRevisionList, *v1alpha1.FleetApprovalList:
		if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
			return nil
		}
	}
	return err
}

// Get implements client.Reader.
func (u ownRights) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := u.Client.Get(ctx, key, object, options...)
	if _, is := object.(*v1alpha1.MachineDeployment); is && apierrors.IsForbidden(err) {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("machinedeployments").GroupResource(), key.Name)
	}
	return err
}

// Cached and Live read Placements.
func (u ownRights) Cached() (client.Reader, error) { return u.Client, nil }
func (u ownRights) Live() (client.Reader, error)   { return u.Client, nil }

// RenewedAt and Verdict say nothing of agents: which of them the hub has heard is known to the hub alone.
func (ownRights) RenewedAt(string) time.Time               { return time.Time{} }
func (ownRights) Verdict(*v1alpha1.Cluster) freeze.Verdict { return freeze.Verdict{} }
