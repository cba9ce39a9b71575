package testenv

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Loosely calls do while the API server accepts anything for the kinds whose definitions have these names, as an older
// definition might, and until it succeeds: the API server needs a moment to read the definition. Then all is as before.
func (e *Environment) Loosely(ctx context.Context, do func(context.Context) error, names ...string) error {
	kept := map[string]any{}
	for _, name := range names {
		anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		schema, err := e.exchangeSchema(ctx, name, anything)
		if err != nil {
			return fmt.Errorf("loosening %s: %w", name, err)
		}
		kept[name] = schema
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, kindsPoll, StartTimeout, true, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		return last == nil, nil
	})
	if err != nil {
		err = errors.Join(err, last)
	}
	for name, schema := range kept {
		if _, restoreErr := e.exchangeSchema(ctx, name, schema); restoreErr != nil {
			err = errors.Join(err, fmt.Errorf("restoring %s: %w", name, restoreErr))
		}
	}
	return err
}

// Remove deletes an object that may not be decodable. A client that deletes a single object encodes the answer again, which
// such an object refuses.
func (e *Environment) Remove(ctx context.Context, object client.Object) error {
	return e.Client.DeleteAllOf(ctx, object, client.InNamespace(object.GetNamespace()), client.MatchingFields{"metadata.name": object.GetName()})
}

// exchangeSchema returns the schema that the definition had.
func (e *Environment) exchangeSchema(ctx context.Context, name string, schema any) (before any, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := e.Client.Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
			return err
		}
		versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
		if err != nil {
			return err
		}
		version := versions[0].(map[string]any)
		before, _, err = unstructured.NestedFieldCopy(version, "schema", "openAPIV3Schema")
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(version, schema, "schema", "openAPIV3Schema"); err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		return e.Client.Update(ctx, definition)
	})
	return before, err
}
