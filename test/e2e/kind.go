package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	kindcmd "sigs.k8s.io/kind/pkg/cmd"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// prefix keeps the names of these clusters apart from those of the user.
const prefix = "hollowfleet-e2e-"

// kindCluster is a cluster whose nodes are containers: one, unless it has workers.
type kindCluster struct {
	name       string // as kind calls it
	workers    int
	kubeconfig string
	config     *rest.Config
	client     client.Client
	provider   *cluster.Provider
}

// nodeName is the name of the node with the control plane, of its container, and of the host that other clusters reach its API server at.
func (c *kindCluster) nodeName() string { return c.name + "-control-plane" }

// podNodeName is the name of the only node that pods may run on: that with the control plane lets them only where it is alone.
func (c *kindCluster) podNodeName() string {
	if c.workers == 0 {
		return c.nodeName()
	}
	return c.name + "-worker"
}

func scheme() *runtime.Scheme {
	all := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(all))
	utilruntime.Must(v1alpha1.AddToScheme(all))
	return all
}

// createClusters creates kind clusters, all at once, from an image of a node: workers has their names, and how many workers each has
// beside its control plane. kubeconfigs are written to dir.
func createClusters(image, dir string, workers map[string]int) (map[string]*kindCluster, error) {
	engine, err := cluster.DetectNodeProvider()
	if err != nil {
		return nil, fmt.Errorf("detecting the container engine: %w", err)
	}
	provider := cluster.NewProvider(engine, cluster.ProviderWithLogger(kindcmd.NewLogger()))
	all := map[string]*kindCluster{}
	failures := make(chan error, len(workers))
	for name, count := range workers {
		created := &kindCluster{name: prefix + name, workers: count, kubeconfig: filepath.Join(dir, name+".kubeconfig"), provider: provider}
		all[name] = created
		go func() { failures <- created.create(image) }()
	}
	for range workers {
		err = errors.Join(err, <-failures)
	}
	return all, err
}

func (c *kindCluster) create(image string) error {
	if err := c.provider.Delete(c.name, c.kubeconfig); err != nil {
		return fmt.Errorf("deleting a kind cluster %s of an earlier run: %w", c.name, err)
	}
	shape := &v1alpha4.Cluster{Nodes: []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole}}}
	for range c.workers {
		shape.Nodes = append(shape.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole})
	}
	err := c.provider.Create(c.name,
		cluster.CreateWithV1Alpha4Config(shape),
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
	if c.client, err = client.New(c.config, client.Options{Scheme: scheme()}); err != nil || c.workers == 0 {
		return err
	}
	return c.separatePodNetworks()
}

// separatePodNetworks gives the pods of each node a network of their own, with routes between them. The image of a node that is built here
// has the same one on every node, because it has nothing that tells nodes apart; kind's own image brings a program that does this.
func (c *kindCluster) separatePodNetworks() error {
	const network = "/etc/cni/net.d/10-ptp.conflist"
	if c.exec("test", "-e", network) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list := &corev1.NodeList{}
	if err := c.client.List(ctx, list); err != nil {
		return fmt.Errorf("listing the nodes of %s: %w", c.name, err)
	}
	for _, node := range list.Items {
		if err := c.execOn(node.Name, "sed", "-i", `s|"subnet": "[^"]*"|"subnet": "`+node.Spec.PodCIDR+`"|`, network); err != nil {
			return err
		}
		for _, other := range list.Items {
			internal := slices.IndexFunc(other.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
			if other.Name == node.Name || internal < 0 {
				continue
			}
			if err := c.execOn(node.Name, "ip", "route", "replace", other.Spec.PodCIDR, "via", other.Status.Addresses[internal].Address); err != nil {
				return err
			}
		}
	}
	// A pod that is there already may have an address of another node's network.
	return c.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("kube-system"), client.MatchingLabels{"k8s-app": "kube-dns"})
}

func (c *kindCluster) delete() error { return c.provider.Delete(c.name, c.kubeconfig) }

// node is the one with the control plane.
func (c *kindCluster) node() (nodes.Node, error) { return c.nodeNamed(c.nodeName()) }

func (c *kindCluster) nodeNamed(name string) (nodes.Node, error) {
	members, err := c.provider.ListInternalNodes(c.name)
	if err != nil {
		return nil, err
	}
	for _, member := range members {
		if member.String() == name {
			return member, nil
		}
	}
	return nil, fmt.Errorf("kind cluster %s has no node %s", c.name, name)
}

// exec runs a command in the container of the node with the control plane.
func (c *kindCluster) exec(command string, args ...string) error {
	return c.execOn(c.nodeName(), command, args...)
}

func (c *kindCluster) execOn(name, command string, args ...string) error {
	node, err := c.nodeNamed(name)
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

// load gives all nodes the images of an archive.
func (c *kindCluster) load(archive string) error {
	members, err := c.provider.ListInternalNodes(c.name)
	if err != nil {
		return err
	}
	for _, member := range members {
		file, err := os.Open(archive)
		if err != nil {
			return err
		}
		err = nodeutils.LoadImageArchive(member, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("loading %s into %s: %w", archive, member, err)
		}
	}
	return nil
}

// collect writes the logs of the nodes, and all their containers, below a directory.
func (c *kindCluster) collect(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return c.provider.CollectLogs(c.name, dir)
}
