package dashboard

import (
	"context"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// reader is a client that reads from the store what the store has, and all else from the API server. Kinds that cannot be read are empty:
// missing says which a page has to name.
type reader struct {
	client.WithWatch
	store *store
	// missing has the kinds that were read and are not known, and why.
	missing map[string]error
}

func (s *store) newReader() *reader {
	return &reader{WithWatch: s.client, store: s, missing: map[string]error{}}
}

// kindOfList is the kind of a list's items, and whether the store has it.
func (r *reader) kindOfList(list client.ObjectList) (string, bool) {
	kind := strings.TrimSuffix(reflect.TypeOf(list).Elem().Name(), "List")
	_, has := r.store.kinds[kind]
	return kind, has
}

// List implements client.Reader.
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind, has := r.kindOfList(list)
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if !has || asked.FieldSelector != nil && !isOfNames(asked.FieldSelector) {
		return r.WithWatch.List(ctx, list, options...)
	}
	if unread := r.store.errorOf(kind); unread != nil {
		r.missing[kind] = unread
		return nil //nolint:nilerr // The page says that the kind is missing.
	}
	return fillList(list, objectsOf(r.store, kind, func(object client.Object) bool {
		return (asked.Namespace == "" || object.GetNamespace() == asked.Namespace) &&
			(asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(object.GetLabels()))) &&
			(asked.FieldSelector == nil || asked.FieldSelector.Matches(fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}))
	}))
}

// isOfNames reports whether a selector is about nothing but names and namespaces.
func isOfNames(selector fields.Selector) bool {
	return !slices.ContainsFunc(selector.Requirements(), func(one fields.Requirement) bool {
		return one.Field != "metadata.name" && one.Field != "metadata.namespace"
	})
}

// Get implements client.Reader.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	kind := reflect.TypeOf(into).Elem().Name()
	if _, has := r.store.kinds[kind]; !has || r.store.errorOf(kind) != nil {
		return r.WithWatch.Get(ctx, key, into, options...)
	}
	found := r.store.object(kind, key)
	if found == nil || reflect.TypeOf(found) != reflect.TypeOf(into) {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource(strings.ToLower(kind)+"s").GroupResource(), key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

// object is the one of a kind with that name; nil if it is not known.
func (s *store) object(kind string, key client.ObjectKey) client.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kinds[kind].objects[key]
}
