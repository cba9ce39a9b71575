package rollout

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// refuseFutile refuses an upgrade that can start in no cluster. A cluster that is frozen or not Ready only waits.
func refuseFutile(name string, p *rollout.Preview, force bool) error {
	why := ""
	for _, m := range p.Members {
		if len(m.Blocked) == 0 || m.Phase != plan.ToApply {
			return nil
		}
		if why == "" {
			why = m.Cluster.Name + ": " + strings.Join(m.Problems(), "; ")
		}
	}
	if force || why == "" {
		return nil
	}
	return cmdutil.Refusal("%s cannot be upgraded: it cannot start in any of its %s, for example %s. Add --force to write it anyway", name, plural.Count(len(p.Members), "cluster"), why)
}

// checkSkew refuses a kubelet version that the cluster of a MachineDeployment does not support. A cluster that cannot be read, or has
// not reported its version yet, is left to the hub.
func (s *subject) checkSkew(ctx context.Context, o *upgradeOptions) error {
	cluster := &v1alpha1.Cluster{}
	if o.force {
		return nil
	}
	err := s.client.Get(ctx, client.ObjectKey{Name: s.deployment.Spec.ClusterName}, cluster)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading cluster %s: %w", s.deployment.Spec.ClusterName, err)
	}
	why := v1alpha1.UnsupportedKubelet(o.kubelet, cluster.Status.KubernetesVersion, s.deployment.Spec.Template.Metadata.Annotations)
	if why == "" {
		return nil
	}
	return cmdutil.Refusal("%s cannot be upgraded: --kubelet: %s: upgrade the API server of cluster %s, choose another version, or add --force to write it anyway",
		s.fullName(), why, cluster.Name)
}
