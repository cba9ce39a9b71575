package testenv

import (
	"context"
	"reflect"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// Client is a direct client of an administrator. The hub's own namespace is there.
func Client(t testing.TB, environment *Environment) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(environment.Config, client.Options{Scheme: scheme.New(), Mapper: environment.Client.RESTMapper()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HubNamespace}}
	if err := c.Create(context.Background(), own); client.IgnoreAlreadyExists(err) != nil {
		t.Fatalf("creating the hub's namespace: %v", err)
	}
	return c
}

// clients are those that CachedClient returned, by their environment: all tests of a package have the same one.
var clients sync.Map

// CachedClient is Client for tests whose controllers write with it and nobody else does. Like the hub's, it reads the kinds that tests read
// most from a cache, but a write returns only when the cache has it: it reads nothing as it was before a write of its own. What others
// write, such as the garbage collector, and what DeleteAllOf deletes, it reads a moment later.
func CachedClient(t testing.TB, environment *Environment) client.WithWatch {
	t.Helper()
	made, _ := clients.LoadOrStore(environment, sync.OnceValues(func() (client.WithWatch, error) {
		return newCachedClient(Client(t, environment), environment)
	}))
	c, err := made.(func() (client.WithWatch, error))()
	if err != nil {
		t.Fatalf("making a client with a cache: %v", err)
	}
	return c
}

func newCachedClient(direct client.WithWatch, environment *Environment) (client.WithWatch, error) {
	cached, err := cache.New(environment.Config, cache.Options{Scheme: scheme.New(), Mapper: environment.Client.RESTMapper()})
	if err != nil {
		return nil, err
	}
	// After the last test, the cache would log that the API server is gone.
	log.SetLogger(logr.Discard())
	go cached.Start(context.Background()) //nolint:errcheck // It runs as long as the tests of the package.
	mirrors := mirrors{}
	mirrors.add(cached, &v1alpha1.Cluster{}, &v1alpha1.ClusterList{})
	mirrors.add(cached, &v1alpha1.Machine{}, &v1alpha1.MachineList{})
	mirrors.add(cached, &v1alpha1.MachineSet{}, &v1alpha1.MachineSetList{})
	mirrors.add(cached, &v1alpha1.MachineDeployment{}, &v1alpha1.MachineDeploymentList{})
	mirrors.add(cached, &v1alpha1.MachineFleet{}, &v1alpha1.MachineFleetList{})
	mirrors.add(cached, &appsv1.ControllerRevision{}, &appsv1.ControllerRevisionList{})
	shown := mirrors.await
	return interceptor.NewClient(direct, interceptor.Funcs{
		Get: mirrors.get, List: mirrors.list, Delete: mirrors.delete,
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return shown(ctx, c, object, c.Create(ctx, object, options...))
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return shown(ctx, c, object, c.Update(ctx, object, options...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return shown(ctx, c, object, c.Patch(ctx, object, patch, options...))
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			return shown(ctx, c, object, c.Apply(ctx, object, options...))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return shown(ctx, c, object, c.SubResource(name).Update(ctx, object, options...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return shown(ctx, c, object, c.SubResource(name).Patch(ctx, object, patch, options...))
		},
	}), nil
}

// mirrors are those of objects and of lists of them, by Go type.
type mirrors map[reflect.Type]*mirror

func (m mirrors) add(cached cache.Cache, object client.Object, list client.ObjectList) {
	added := &mirror{cache: cached, empty: object, changed: make(chan struct{})}
	added.start = sync.OnceValue(added.watch)
	m[reflect.TypeOf(object)], m[reflect.TypeOf(list)] = added, added
}

func (m mirrors) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if mirror := m[reflect.TypeOf(object)]; mirror != nil && len(options) == 0 {
		return mirror.get(ctx, key, object)
	}
	return c.Get(ctx, key, object, options...)
}

func (m mirrors) list(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	if mirror := m[reflect.TypeOf(list)]; mirror != nil {
		if answered, err := mirror.list(ctx, list, options); answered || err != nil {
			return err
		}
	}
	return c.List(ctx, list, options...)
}

func (m mirrors) delete(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	err := c.Delete(ctx, object, options...)
	if mirror := m.ofWritten(c, object); mirror != nil && err == nil {
		return mirror.awaitDeletion(ctx, object)
	}
	return err
}

// await waits after a write that succeeded for the cache to have it.
func (m mirrors) await(ctx context.Context, c client.Client, written any, err error) error {
	object, is := written.(client.Object)
	if !is || err != nil {
		return err
	}
	if mirror := m.ofWritten(c, object); mirror != nil {
		return mirror.awaitWrite(ctx, object)
	}
	return nil
}

// ofWritten returns the mirror of an object that may be unstructured; nil if it has none.
func (m mirrors) ofWritten(c client.Client, object client.Object) *mirror {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return nil
	}
	typed, err := c.Scheme().New(kind)
	if err != nil {
		return nil
	}
	return m[reflect.TypeOf(typed)]
}
