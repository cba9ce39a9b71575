package hub

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// Install applies what a hub needs on its API server: the kinds, the admission policies,
// the hub's namespace and service account, and the roles of hub and agents. It returns when the API server serves the kinds, or ctx is done. Install
// again to upgrade; what is as wanted is left as it is.
func Install(ctx context.Context, target *rest.Config) error {
	direct, err := client.New(target, client.Options{Scheme: scheme.New()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := config.InstallCRDs(ctx, direct, config.CRDs, "crd"); err != nil {
		return err
	}
	// Before the roles, so that no agent has rights without it.
	if err := config.Apply(ctx, direct, config.Admission, "admission"); err != nil {
		return err
	}
	for _, dir := range []string{"rbac/hub", "rbac/agent-hub"} {
		if err := config.Apply(ctx, direct, config.RBAC, dir); err != nil {
			return err
		}
	}
	return nil
}
