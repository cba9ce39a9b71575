package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/manifests"
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
	ClusterProfiles = Kinds{
		Module: "sigs.k8s.io/cluster-inventory-api", Dir: "config/crd/bases",
		Names: []string{"clusterprofiles.multicluster.x-k8s.io", "placementdecisions.multicluster.x-k8s.io"},
	}
)

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
	return manifests.InstallCRDs(ctx, c, os.DirFS(dir), k.Dir)
}

// Uninstall removes kinds with all their objects, and returns when they are gone.
func (k Kinds) Uninstall(ctx context.Context, c client.Client) error {
	for _, name := range k.Names {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		definition.SetName(name)
		if err := c.Delete(ctx, definition); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s: %w", name, err)
		}
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, StartTimeout, true, func(ctx context.Context) (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(definition), definition)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to go: %w", name, err)
		}
	}
	return nil
}
