package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/config"
)

// Kinds are CustomResourceDefinitions that another project publishes in its Go module.
type Kinds struct {
	// Module is the module's path, and Dir the directory in it.
	Module, Dir string
	// Names are the names of the definitions there.
	Names []string
}

// Kinds that others install on a hub.
var (
	ManagedClusters = Kinds{
		Module: "open-cluster-management.io/api", Dir: "cluster/v1",
		Names: []string{"managedclusters.cluster.open-cluster-management.io"},
	}
	Placements = Kinds{
		Module: "open-cluster-management.io/api", Dir: "cluster/v1beta1",
		Names: []string{"placements.cluster.open-cluster-management.io", "placementdecisions.cluster.open-cluster-management.io"},
	}
	ClusterProfiles = Kinds{
		Module: "sigs.k8s.io/cluster-inventory-api", Dir: "config/crd/bases",
		Names: []string{"clusterprofiles.multicluster.x-k8s.io", "placementdecisions.multicluster.x-k8s.io"},
	}
)

const kindsPoll = 100 * time.Millisecond

// Install installs kinds as the version of the module that go.mod names has them.
func (k Kinds) Install(ctx context.Context, c client.Client) error {
	listed, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", k.Module).Output()
	if err != nil {
		return fmt.Errorf("looking for module %s: %w", k.Module, err)
	}
	dir := strings.TrimSpace(string(listed))
	if dir == "" {
		return errors.New("looking for module " + k.Module + ": it is not downloaded")
	}
	return config.InstallCRDs(ctx, c, os.DirFS(dir), k.Dir)
}

// Uninstall removes kinds with all their objects, and returns when they are gone.
func (k Kinds) Uninstall(ctx context.Context, c client.Client) error {
	for _, name := range k.Names {
		if err := uninstallDefinition(ctx, c, name); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}

// uninstallDefinition removes one definition. It lists the objects first: should the API server have to start with that while it
// removes them, it may put the removal off for minutes (its retry meets a conflict with its own last write, and the news
// of that write wakes no controller; updateCustomResourceDefinition in apiextensions-apiserver's crd_finalizer.go).
func uninstallDefinition(ctx context.Context, c client.Client, name string) error {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := c.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
		return client.IgnoreNotFound(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, definition); err != nil {
		return err
	}
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(schema.GroupVersionKind{
		Group: definition.Spec.Group, Version: definition.Spec.Versions[0].Name, Kind: definition.Spec.Names.ListKind,
	})
	var last error
	err := wait.PollUntilContextTimeout(ctx, kindsPoll, StartTimeout, true, func(ctx context.Context) (bool, error) {
		last = c.List(ctx, objects)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for its objects to be served: %w", errors.Join(err, last))
	}
	if err := c.Delete(ctx, found); client.IgnoreNotFound(err) != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, kindsPoll, StartTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(found), found)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for it to go: %w", err)
	}
	return nil
}

// KStatus returns what the kstatus library says of object, and so what Argo CD, Flux and Helm go by.
func KStatus(t *testing.T, object runtime.Object) status.Status {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatalf("converting %T: %v", object, err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		t.Fatalf("computing the kstatus of %T: %v", object, err)
	}
	return result.Status
}

// Loosely calls do while the API server accepts anything for the kinds whose definitions have these names, as an older
// definition might, and until it succeeds: the API server needs a moment to read the definition. Then all is as before.
func (e *Environment) Loosely(ctx context.Context, do func(context.Context) error, names ...string) error {
	kept := map[string]schemaOf{}
	for _, name := range names {
		loose := schemaOf{schema: map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
		before, err := e.exchangeSchema(ctx, name, loose)
		if err != nil {
			return fmt.Errorf("loosening %s: %w", name, err)
		}
		kept[name] = before
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

// schemaOf is what a definition says of the fields of its objects: without types there are none to select by.
type schemaOf struct{ schema, selectable any }

// exchangeSchema returns what the definition said before.
func (e *Environment) exchangeSchema(ctx context.Context, name string, wanted schemaOf) (before schemaOf, err error) {
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
		before.schema, _, err = unstructured.NestedFieldCopy(version, "schema", "openAPIV3Schema")
		if err != nil {
			return err
		}
		before.selectable = version["selectableFields"]
		if err := unstructured.SetNestedField(version, wanted.schema, "schema", "openAPIV3Schema"); err != nil {
			return err
		}
		if delete(version, "selectableFields"); wanted.selectable != nil {
			version["selectableFields"] = wanted.selectable
		}
		if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		return e.Client.Update(ctx, definition)
	})
	return before, err
}
