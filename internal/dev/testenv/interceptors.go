package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// ErrRefused is what Refuse answers.
var ErrRefused = errors.New("refused")

// Refuse is c, but creates and patches nothing in the namespaces that are refused at that time.
func Refuse(c client.WithWatch, refused map[string]bool) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if refused[object.GetNamespace()] {
				return ErrRefused
			}
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if refused[object.GetNamespace()] {
				return ErrRefused
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
}

// Outdated returns a client that lists Clusters as they were before they had labels, as a cache may that lags.
func Outdated(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if clusters, are := list.(*v1alpha1.ClusterList); are {
				for i := range clusters.Items {
					clusters.Items[i].Labels = nil
				}
			}
			return err
		},
	})
}

// Writes counts writes by what they are, such as "create Machine" or "patch Machine/status".
type Writes struct {
	mu     sync.Mutex
	counts map[string]int
}

// Counts returns the writes so far, and starts over.
func (w *Writes) Counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := w.counts
	w.counts = nil
	if counts == nil {
		counts = map[string]int{}
	}
	return counts
}

// Total is the number of writes so far, and starts over.
func (w *Writes) Total() int {
	total := 0
	for count := range maps.Values(w.Counts()) {
		total += count
	}
	return total
}

// Add counts one write.
func (w *Writes) Add(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[what]++
}

// Count is a client whose writes are counted.
func (w *Writes) Count(c client.WithWatch) client.WithWatch {
	kind := func(object client.Object) string {
		gvk, err := c.GroupVersionKindFor(object)
		if err != nil {
			return fmt.Sprintf("%T", object)
		}
		return gvk.Kind
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			w.Add("create " + kind(object))
			return c.Create(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			w.Add("delete " + kind(object))
			return c.Delete(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			w.Add("update " + kind(object))
			return c.Update(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			w.Add("patch " + kind(object))
			return c.Patch(ctx, object, patch, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			w.Add(fmt.Sprintf("apply %T", object))
			return c.Apply(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			w.Add("patch " + kind(object) + "/" + subresource)
			return c.SubResource(subresource).Patch(ctx, object, patch, options...)
		},
	})
}
