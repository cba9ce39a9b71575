package hollownode

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/rhythm"
)

// unmanagedCoordination keeps Leases free of managed fields. An API server keeps no account of the fields of an object once a client has
// taken them away, which saves a tenth of the processor time of nodes and control planes at rest. Only the kubelet has fields in the Lease
// of its node.
type unmanagedCoordination struct {
	typedcoordinationv1.CoordinationV1Interface
}

// Leases returns the client for Leases.
func (c unmanagedCoordination) Leases(namespace string) typedcoordinationv1.LeaseInterface {
	return unmanagedLeases{c.CoordinationV1Interface.Leases(namespace)}
}

type unmanagedLeases struct {
	typedcoordinationv1.LeaseInterface
}

// Update is called by the kubelet with each heartbeat.
func (l unmanagedLeases) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if len(lease.ManagedFields) > 0 {
		lease = lease.DeepCopy()
		lease.ManagedFields = []metav1.ManagedFieldsEntry{{}} // An API server takes this for none, and nothing for as before.
	}
	rhythm.Await(ctx, loopPeriod)
	return l.LeaseInterface.Update(ctx, lease, options)
}
