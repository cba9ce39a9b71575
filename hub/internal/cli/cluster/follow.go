package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
)

// ageColumn is the index of the column that changes by itself.
const ageColumn = 7

// follow lists the clusters of those names, or all, and each again when its line changes, until ctx is done.
func (o *listOptions) follow(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, chosen labels.Selector, names []string) error {
	shown := map[string]string{}
	show := func(clusters []v1alpha1.Cluster) error {
		rows := table(slices.DeleteFunc(clusters, func(cluster v1alpha1.Cluster) bool {
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
		sorted, err := pick(all, nil)
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
