package hub

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// namedLeft is how many objects the error of CheckUninstall names.
const namedLeft = 5

// CheckUninstall returns an error that names the Clusters that are left on target, and what their agents have left. Their finalizers are
// removed by the hub and the agents alone: without a hub, they, their namespaces and the kinds cannot be deleted.
func CheckUninstall(ctx context.Context, target *rest.Config) error {
	api, err := client.New(target, client.Options{})
	if err != nil {
		return err
	}
	clusters, err := listLeft(ctx, api, "Cluster")
	if err != nil {
		return err
	}
	if len(clusters) > 0 {
		return fmt.Errorf("this hub still has Clusters (%s), and nothing else removes their finalizers. To remove the fleet, delete the machines, then run "+
			"kubectl hollow cluster remove NAME for each cluster, and uninstall the hub after that. To keep the fleet for another hub, "+
			"uninstall with --no-hooks", nameFew(clusters))
	}
	for _, kind := range []string{"Machine", "LoadTestRun"} {
		left, err := listLeft(ctx, api, kind)
		if err != nil {
			return err
		}
		if left = slices.DeleteFunc(left, func(o metav1.PartialObjectMetadata) bool { return len(o.Finalizers) == 0 }); len(left) > 0 {
			return fmt.Errorf("this hub still has %ss (%s) of clusters that it does not have any more, and no agent removes their finalizers. To remove them, run "+
				"kubectl delete namespace NAME --wait=false and kubectl hollow cluster remove-finalizers NAME for each of their namespaces, and uninstall the hub "+
				"after that. To keep them for another hub, uninstall with --no-hooks", kind, nameFew(left))
		}
	}
	return nil
}

// listLeft lists the objects of a kind; none if the kind is gone, and its objects with it.
func listLeft(ctx context.Context, api client.Client, kind string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	if err := api.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing the %ss that are left: %w", kind, err)
	}
	return list.Items, nil
}

// nameFew names the first objects of a list, and counts the others.
func nameFew(objects []metav1.PartialObjectMetadata) string {
	var names []string
	for i := range objects[:min(len(objects), namedLeft)] {
		names = append(names, strings.TrimPrefix(objects[i].Namespace+"/"+objects[i].Name, "/"))
	}
	if more := len(objects) - namedLeft; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
