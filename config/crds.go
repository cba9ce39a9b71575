package config

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const establishedPoll = 100 * time.Millisecond

// InstallCRDs applies the CustomResourceDefinitions in dir of files and waits until the API server serves
// them or ctx is done.
func InstallCRDs(ctx context.Context, c client.Client, files fs.FS, dir string) error {
	crds, err := Read(files, dir)
	if err != nil {
		return err
	}
	if err := Apply(ctx, c, files, dir); err != nil {
		return err
	}
	for _, crd := range crds {
		err := wait.PollUntilContextCancel(ctx, establishedPoll, true, func(ctx context.Context) (bool, error) {
			current := &unstructured.Unstructured{}
			current.SetGroupVersionKind(crd.GroupVersionKind())
			if err := c.Get(ctx, client.ObjectKeyFromObject(crd), current); err != nil {
				return false, err
			}
			return isEstablished(current), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be established: %w", crd.GetName(), err)
		}
		if err := waitUntilDiscovered(ctx, c, crd); err != nil {
			return err
		}
	}
	return nil
}

// waitUntilDiscovered waits until c finds the kind of crd: the API server tells of a kind some time after it is established. It asks for the
// version that is stored, because a RESTMapper that knows a group does not ask again which other versions the group has.
func waitUntilDiscovered(ctx context.Context, c client.Client, crd *unstructured.Unstructured) error {
	kind := schema.GroupKind{}
	kind.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	kind.Kind, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "kind")
	err := wait.PollUntilContextCancel(ctx, establishedPoll, true, func(context.Context) (bool, error) {
		_, err := c.RESTMapper().RESTMapping(kind, storedVersion(crd))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server to tell of kind %s: %w", kind, err)
	}
	return nil
}

// storedVersion is the version of crd in which objects are stored. It is served, or no object could be read.
func storedVersion(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range versions {
		v, _ := version.(map[string]any)
		if stored, _ := v["storage"].(bool); stored {
			name, _ := v["name"].(string)
			return name
		}
	}
	return ""
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == "Established" {
			return c["status"] == "True"
		}
	}
	return false
}
