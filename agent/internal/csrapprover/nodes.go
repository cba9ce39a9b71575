package csrapprover

import (
	"context"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Nodes returns the names of the nodes for which hollow-nodes have asked to join.
func (c *Controller) Nodes(ctx context.Context) ([]string, error) {
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := c.Target.List(ctx, requests, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing certificate requests: %w", err)
	}
	var nodes []string
	for i := range requests.Items {
		if requests.Items[i].Spec.Username != c.BootstrapUser {
			continue
		}
		if name, err := nodeOf(&requests.Items[i]); err == nil {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}
