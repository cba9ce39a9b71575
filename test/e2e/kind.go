package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	kindcmd "sigs.k8s.io/kind/pkg/cmd"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// prefix keeps the names of these clusters apart from those of the user.
const prefix = "hollowfleet-e2e-"

// kindCluster is a cluster of one node, which is a container.
type kindCluster struct {
	name       string // as kind calls it
	kubeconfig string
	config     *rest.Config
	client     client.Client
	provider   *cluster.Provider
}

// nodeName is the name of the cluster's only node, of its container, and of the host that other clusters reach its API server at.
func (c *kindCluster) nodeName() string { return c.name + "-control-plane" }

func scheme() *runtime.Scheme {
	all := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(all))
	utilruntime.Must(v1alpha1.AddToScheme(all))
	return all
}

// createClusters creates kind clusters of these names, all at once, from an image of a node. kubeconfigs are written to dir.
func createClusters(image, dir string, names ...string) (map[string]*kindCluster, error) {
	engine, err := cluster.DetectNodeProvider()
	if err != nil {
		return nil, fmt.Errorf("detecting the container engine: %w", err)
	}
	provider := cluster.NewProvider(engine, cluster.ProviderWithLogger(kindcmd.NewLogger()))
	all := map[string]*kindCluster{}
	failures := make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		created := &kindCluster{name: prefix + name, kubeconfig: filepath.Join(dir, name+".kubeconfig"), provider: provider}
		all[name] = created
		wait.Go(func() { failures[i] = created.create(image) })
	}
	wait.Wait()
	return all, errors.Join(failures...)
}

func (c *kindCluster) create(image string) error {
	if err := c.provider.Delete(c.name, c.kubeconfig); err != nil {
		return fmt.Errorf("deleting a kind cluster %s of an earlier run: %w", c.name, err)
	}
	err := c.provider.Create(c.name,
		cluster.CreateWithNodeImage(image),
		cluster.CreateWithKubeconfigPath(c.kubeconfig),
		cluster.CreateWithWaitForReady(3*time.Minute),
		// What failed is looked at, and deleted with the next run.
		cluster.CreateWithRetain(true),
		cluster.CreateWithDisplayUsage(false),
		cluster.CreateWithDisplaySalutation(false))
	if err != nil {
		return fmt.Errorf("creating kind cluster %s: %w", c.name, err)
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		return err
	}
	c.client, err = client.New(c.config, client.Options{Scheme: scheme()})
	return err
}

func (c *kindCluster) delete() error { return c.provider.Delete(c.name, c.kubeconfig) }

func (c *kindCluster) node() (nodes.Node, error) {
	members, err := c.provider.ListInternalNodes(c.name)
	if err != nil {
		return nil, err
	}
	if len(members) != 1 {
		return nil, fmt.Errorf("kind cluster %s has %d nodes, want 1", c.name, len(members))
	}
	return members[0], nil
}

// exec runs a command in the container of the node.
func (c *kindCluster) exec(command string, args ...string) error {
	node, err := c.node()
	if err != nil {
		return err
	}
	var output bytes.Buffer
	err = node.Command(command, args...).SetStdout(&output).SetStderr(&output).Run()
	if err != nil {
		return fmt.Errorf("%s %s in %s: %w\n%s", command, strings.Join(args, " "), node, err, output.String())
	}
	return nil
}

// collect writes the logs of the node, and all its containers, below a directory.
func (c *kindCluster) collect(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return c.provider.CollectLogs(c.name, dir)
}
