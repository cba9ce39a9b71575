package hub

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// namedClusters is how many Clusters the error of CheckUninstall names.
const namedClusters = 5

// CheckUninstall returns an error that names the Clusters that are left on target. Their finalizers are removed by the hub and the
// agents alone: without a hub, the Clusters, their namespaces and the kinds cannot be deleted.
func CheckUninstall(ctx context.Context, target *rest.Config) error {
	api, err := client.New(target, client.Options{})
	if err != nil {
		return err
	}
	clusters := &metav1.PartialObjectMetadataList{}
	clusters.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterList"))
	switch err := api.List(ctx, clusters); {
	case meta.IsNoMatchError(err):
		return nil // The kinds are gone, and their objects with them.
	case err != nil:
		return fmt.Errorf("listing the Clusters that are left: %w", err)
	case len(clusters.Items) == 0:
		return nil
	}
	var names []string
	for _, cluster := range clusters.Items[:min(len(clusters.Items), namedClusters)] {
		names = append(names, cluster.Name)
	}
	if more := len(clusters.Items) - namedClusters; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("this hub still has Clusters (%s), and nothing else removes their finalizers. To remove the fleet, delete the machines, then run "+
		"kubectl hollow cluster remove NAME for each cluster, and uninstall the hub after that. To keep the fleet for another hub, "+
		"uninstall with --no-hooks", strings.Join(names, ", "))
}
