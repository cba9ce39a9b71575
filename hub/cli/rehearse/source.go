package rehearse

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
)

// readInventory reads the cluster or the file.
func (r *command) readInventory(ctx context.Context) (*inventory.Inventory, error) {
	found, err := r.readSource(ctx)
	if err != nil {
		return nil, err
	}
	if r.hash && !found.NamesHashed {
		salt := make([]byte, 32)
		if _, err := rand.Read(salt); err != nil {
			return nil, fmt.Errorf("hashing names: %w", err)
		}
		found.HashNames(salt)
	}
	return found, nil
}

func (r *command) readSource(ctx context.Context) (*inventory.Inventory, error) {
	if r.inventory != "" {
		return r.readFile()
	}
	config, err := loadKubeconfig(r.sourceFlags.kubeconfig, r.sourceFlags.context)
	if err != nil {
		return nil, fmt.Errorf("--from-kubeconfig: %w", err)
	}
	found, err := inventory.Read(ctx, config, time.Now())
	switch {
	case apierrors.IsForbidden(err):
		return nil, cmdutil.Refusal("--from-kubeconfig: %w: a rehearsal needs to list Nodes, Deployments, StatefulSets, DaemonSets, PodDisruptionBudgets and PriorityClasses; the ClusterRole view and the right to list Nodes do", err)
	case isUntrusted(err):
		return nil, fmt.Errorf("--from-kubeconfig: %w: set certificate-authority(-data) of %s to the authority that has signed the API server's certificate, and the name in it as server", err, r.sourceFlags.kubeconfig)
	case err != nil:
		return nil, fmt.Errorf("--from-kubeconfig: %w", err)
	}
	if len(found.Nodes) == 0 {
		return nil, cmdutil.Refusal("--from-kubeconfig: the cluster has no Nodes, so that there is nothing to upgrade")
	}
	return found, nil
}

// isUntrusted reports whether the certificate of an API server is not accepted.
func isUntrusted(err error) bool {
	var problem *tls.CertificateVerificationError
	return errors.As(err, &problem)
}

func (r *command) readFile() (*inventory.Inventory, error) {
	var content []byte
	var err error
	if r.inventory == "-" {
		content, err = io.ReadAll(r.hub.In)
	} else {
		content, err = os.ReadFile(r.inventory)
	}
	if err != nil {
		return nil, fmt.Errorf("--from-inventory: %w", err)
	}
	found, err := inventory.Decode(content)
	if err != nil {
		return nil, cmdutil.Usage("--from-inventory: %s: %w", r.inventory, err)
	}
	return found, nil
}

func (r *command) saveInventory(found *inventory.Inventory) error {
	if r.save == "" {
		return nil
	}
	content, err := found.Encode()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(r.save, content, permissions); err != nil {
		return fmt.Errorf("--save-inventory: %w", err)
	}
	r.hub.Note("Wrote the inventory to %s", r.save)
	return nil
}

// loadKubeconfig reads a kubeconfig that is not the hub's.
func loadKubeconfig(path, context string) (*rest.Config, error) {
	loaded, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, &clientcmd.ConfigOverrides{CurrentContext: context},
	).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return loaded, nil
}
