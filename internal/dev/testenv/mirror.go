package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// mirrorTimeout bounds how long a mirror may lag, on a very busy machine.
	mirrorTimeout = 4 * time.Minute
	// nameField is the only field by which mirrors list objects.
	nameField = "metadata.name"
)

// mirror is a cache of one kind of objects that tells how current it is.
type mirror struct {
	cache cache.Cache
	// empty is an object of the kind.
	empty client.Object
	// start calls watch at the first call.
	start func() error

	mu sync.Mutex
	// changed is closed at the next change.
	changed chan struct{}
	// newest is the highest resource version that the watch has shown.
	newest uint64
}

// watch begins to keep the objects of the kind in memory, and returns when all of them are.
func (m *mirror) watch() error {
	ctx, cancel := context.WithTimeout(context.Background(), mirrorTimeout)
	defer cancel()
	if err := m.cache.IndexField(ctx, m.empty, nameField, func(object client.Object) []string { return []string{object.GetName()} }); err != nil {
		return err
	}
	informer, err := m.cache.GetInformer(ctx, m.empty)
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: m.note, UpdateFunc: func(_, changed any) { m.note(changed) }, DeleteFunc: m.note,
	})
	if err != nil {
		return err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("reading all %T: %w", m.empty, ctx.Err())
	}
	return nil
}

// note remembers that the watch has shown object.
func (m *mirror) note(object any) {
	if last, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = last.Obj
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest = max(m.newest, versionOf(object.(client.Object)))
	close(m.changed)
	m.changed = make(chan struct{})
}

func versionOf(object client.Object) uint64 {
	version, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return version
}

// get reads object from memory.
func (m *mirror) get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	if err := m.start(); err != nil {
		return err
	}
	if err := m.cache.Get(ctx, key, object); err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // As decoders of the API server's answers leave it.
	return nil
}

// list lists objects from memory in the order of the API server, or has not answered: memory knows no pages, and one field only.
func (m *mirror) list(ctx context.Context, list client.ObjectList, options []client.ListOption) (answered bool, err error) {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if asked.Raw != nil || asked.Continue != "" || asked.FieldSelector != nil && !isByName(asked.FieldSelector) {
		return false, nil
	}
	limit := asked.Limit
	asked.Limit = 0
	if err := m.start(); err != nil {
		return false, err
	}
	if err := m.cache.List(ctx, list, asked); err != nil {
		return false, err
	}
	items, err := meta.ExtractList(list)
	if err != nil || limit > 0 && int64(len(items)) > limit {
		return false, err
	}
	slices.SortFunc(items, func(a, b runtime.Object) int { return strings.Compare(keyOf(a), keyOf(b)) })
	list.SetContinue("")
	return true, meta.SetList(list, items)
}

func isByName(selector fields.Selector) bool {
	asked := selector.Requirements()
	return len(asked) == 1 && asked[0].Field == nameField && asked[0].Operator == selection.Equals
}

func keyOf(object runtime.Object) string {
	return client.ObjectKeyFromObject(object.(client.Object)).String()
}

// awaitWrite returns when object, as the API server answered a write, is in memory.
func (m *mirror) awaitWrite(ctx context.Context, object client.Object) error {
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return m.await(ctx, object, func(now client.Object) bool { return now == nil })
	}
	return m.await(ctx, object, func(client.Object) bool { return m.newest >= versionOf(object) })
}

// awaitDeletion returns when memory has object no more, or as one that is being deleted.
func (m *mirror) awaitDeletion(ctx context.Context, object client.Object) error {
	return m.await(ctx, object, func(now client.Object) bool { return now == nil || now.GetDeletionTimestamp() != nil })
}

// await returns when holds is true of what memory has of object now: nil if there is none, or another one of its name.
func (m *mirror) await(ctx context.Context, object client.Object, holds func(now client.Object) bool) error {
	if err := m.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	for {
		m.mu.Lock()
		changed := m.changed
		now := m.empty.DeepCopyObject().(client.Object)
		err := m.cache.Get(ctx, client.ObjectKeyFromObject(object), now)
		if err != nil || object.GetUID() != "" && now.GetUID() != object.GetUID() {
			now = nil
		}
		held := client.IgnoreNotFound(err) == nil && holds(now)
		m.mu.Unlock()
		if held {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a cache to have %T %s: %w", object, object.GetName(), errors.Join(err, ctx.Err()))
		}
	}
}
