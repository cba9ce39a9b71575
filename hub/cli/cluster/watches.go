package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const (
	// rightsGlance is how often to ask whether a denied cluster has rights still.
	rightsGlance = 200 * time.Millisecond
	// cutPause lies between the two changes of a definition. An API server that had not heard of the denial at the
	// first one has at the second.
	cutPause = 2 * time.Second
	// cutCategory is what a definition has for that time.
	cutCategory = "hollowfleet-watches-ended"
)

var (
	definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	// watchedResources are those of Hollowfleet's kinds that an agent may watch on the hub.
	watchedResources = []string{"clusters", "machineclasses", "machines"}
)

// endWatches ends the watches that a denied cluster without rights has open: an API server asks only at the start of one
// whether it is allowed. A change of a CustomResourceDefinition ends all watches of its kind; whose rights are gone cannot
// start another. The definitions are changed and changed back, the latter also when it is interrupted.
func endWatches(ctx context.Context, hub *cmdutil.Hub, c client.Client, timeout time.Duration) error {
	err := markAll(ctx, c, true)
	if err == nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(cutPause):
		}
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := errors.Join(err, markAll(back, c, false)); err != nil {
		return err
	}
	hub.Say("all watches of clusters, machine classes and machines ended; clients that are allowed to start them again")
	return nil
}

// markAll marks the definitions of all that an agent may watch, or takes the marks away.
func markAll(ctx context.Context, c client.Client, marked bool) error {
	var problems []error
	for _, resource := range watchedResources {
		problems = append(problems, markDefinition(ctx, c, resource+"."+v1alpha1.GroupVersion.Group, marked))
	}
	return errors.Join(problems...)
}

// awaitNoRights waits until the hub has taken the rights of a cluster's agent away.
func awaitNoRights(ctx context.Context, c client.Client, name string, timeout time.Duration) error {
	err := cmdutil.Within(ctx, timeout, func(ctx context.Context) error {
		return wait.PollUntilContextCancel(ctx, rightsGlance, true, func(ctx context.Context) (bool, error) {
			for _, resource := range watchedResources {
				review := newAccessReview(name, resource)
				if err := c.Create(ctx, review); err != nil {
					return false, fmt.Errorf("asking what cluster %s may watch: %w", name, err)
				}
				if review.Status.Allowed {
					return false, nil
				}
			}
			return true, nil
		})
	}, func() error {
		return cmdutil.Timeout("cluster %s is denied, but its agent still has access after %s: %s. The hub revokes it as soon as it works. Repeat the command then", name, timeout,
			cmdutil.DescribeStoppedHub(ctx, c, "the hub is slow or has errors: see its log"))
	})
	if apierrors.IsForbidden(err) {
		return cmdutil.Refusal("cluster %s is denied; you may not check whether its access is revoked (%w): use --wait=false", name, err)
	}
	return err
}

// newAccessReview asks whether the agent of a cluster may watch its own objects.
func newAccessReview(name, resource string) *authorizationv1.SubjectAccessReview {
	attributes := &authorizationv1.ResourceAttributes{Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: resource, Namespace: name}
	if resource == "clusters" {
		attributes.Namespace, attributes.Name = "", name
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: v1alpha1.AgentUserPrefix + name, Groups: []string{v1alpha1.AgentGroupPrefix + name}, ResourceAttributes: attributes,
	}}
}

// markDefinition gives a definition the category, or takes it away.
func markDefinition(ctx context.Context, c client.Client, name string, marked bool) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(definitionKind)
		if err := c.Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
			return err
		}
		before := definition.DeepCopy()
		categories, _, err := unstructured.NestedStringSlice(definition.Object, "spec", "names", "categories")
		if err != nil {
			return err
		}
		if slices.Contains(categories, cutCategory) == marked {
			return nil
		}
		categories = slices.DeleteFunc(categories, func(category string) bool { return category == cutCategory })
		if marked {
			categories = append(categories, cutCategory)
		}
		if err := unstructured.SetNestedStringSlice(definition.Object, categories, "spec", "names", "categories"); err != nil {
			return err
		}
		return c.Patch(ctx, definition, reconciler.MergeFromWithLock(before))
	})
	if err != nil {
		return fmt.Errorf("changing CustomResourceDefinition %s to end its watches: %w", name, err)
	}
	return nil
}

// ageColumn is the index of the column that changes by itself.
const ageColumn = 7

// followClusters lists the clusters of those names, or all, and each again when its line changes, until ctx is done.
func (o *listOptions) followClusters(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, chosen labels.Selector, names []string) error {
	shown := map[string]string{}
	show := func(clusters []v1alpha1.Cluster) error {
		rows := newTable(slices.DeleteFunc(clusters, func(cluster v1alpha1.Cluster) bool {
			return len(names) > 0 && !slices.Contains(names, cluster.Name)
		}), time.Now())
		rows.Rows = slices.DeleteFunc(rows.Rows, func(row metav1.TableRow) bool {
			text := fmt.Sprint(row.Cells[:ageColumn], row.Cells[ageColumn+1:])
			name := fmt.Sprint(row.Cells[0])
			same := shown[name] == text
			shown[name] = text
			return same
		})
		if len(rows.Rows) == 0 {
			return nil
		}
		return o.output.Table(hub.Out, rows)
	}
	_, err := watchtools.UntilWithSync(ctx, listWatch(c, chosen), &v1alpha1.Cluster{}, func(store cache.Store) (bool, error) {
		var all []v1alpha1.Cluster
		for _, object := range store.List() {
			if cluster, ok := object.(*v1alpha1.Cluster); ok {
				all = append(all, *cluster)
			}
		}
		sorted, err := pickClusters(all, nil)
		if err != nil {
			return false, err
		}
		err = show(sorted)
		o.output.WithoutHeaders()
		return false, err
	}, func(event watch.Event) (bool, error) {
		cluster, ok := event.Object.(*v1alpha1.Cluster)
		if !ok {
			return false, nil
		}
		if event.Type == watch.Deleted {
			delete(shown, cluster.Name)
			hub.Note("cluster.hollowfleet.io/%s was removed", cluster.Name)
			return false, nil
		}
		return false, show([]v1alpha1.Cluster{*cluster})
	})
	if ctx.Err() != nil {
		return errors.Join(ctx.Err())
	}
	return err
}

func listWatch(c client.WithWatch, chosen labels.Selector) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &v1alpha1.ClusterList{}
			return list, c.List(ctx, list, &client.ListOptions{LabelSelector: chosen, Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &v1alpha1.ClusterList{}, &client.ListOptions{LabelSelector: chosen, Raw: &options})
		},
	}
}
