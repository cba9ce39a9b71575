// Package kwok is a provider whose Machines are Nodes without kubelets: the driver creates the Node, and the controller of
// sigs.k8s.io/kwok, unmodified, keeps its Lease, makes it Ready and plays its pods. Ten thousand of them take one process.
//
// The Node is the instance. It is recognized by its spec.providerID, which the driver gives it and the API server never changes. The
// driver writes what the Node is: capacity, versions, operating system. kwok's controller writes how it is: conditions, Lease, pods. It
// has an identity of its own, the ServiceAccount hollowfleet-kwok, and acts on Nodes with the label hollowfleet.io/hollow=kwok alone.
//
// The controller may overlook pods when it takes Nodes over. The driver reminds it of them: it changes an annotation of pods that wait.
//
// The controller either is a process that the driver starts and that ends with the agent, or runs beside the agent by other means.
package kwok

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Options are what the agent's command line says about Nodes of kwok.
type Options struct {
	// Program is the path of kwok's controller, which the driver starts. Empty: it runs beside the agent.
	Program string
	// Dir takes the controller's configuration, credential and log. Required with Program.
	Dir string
	// LeaseDuration is how long the Lease of a Node is valid. The controller renews it four times as often. Default DefaultLeaseDuration.
	LeaseDuration time.Duration
	// ServerURL and ServerCA (PEM) are the target's API server as the controller reaches it. Required with Program.
	ServerURL string
	ServerCA  []byte
	// HollowTaint holds for Machines whose class says nothing of it. Default Auto.
	HollowTaint v1alpha1.HollowTaint
	// ServerVersion returns the version of the target's API server: that of a Node whose Machine names none. Empty while it is not known.
	ServerVersion func() string
}

// DefaultLeaseDuration is a kubelet's.
const DefaultLeaseDuration = 40 * time.Second

// deletionAttempts is how often a Node is read and judged whose deletion meets other writers.
const deletionAttempts = 5

// programRecheck is how soon a missing program is looked for again.
const programRecheck = 15 * time.Second

// Driver makes Nodes of kwok. It implements driver.Driver.
type Driver struct {
	options     Options
	environment driver.Environment
	// nodes is what the target's API server itself has told of the Nodes.
	nodes relist.Tracker
	// controller is kwok's, if the driver starts it.
	controller *controller
}

// Factory returns a Factory of drivers with these options.
func Factory(options Options) driver.Factory {
	return func(ctx context.Context, environment driver.Environment) (driver.Driver, error) {
		return New(ctx, options, environment)
	}
}

// New returns a Driver. Its controller, if it starts one, ends with ctx.
func New(ctx context.Context, options Options, environment driver.Environment) (*Driver, error) {
	d := &Driver{options: options, environment: environment}
	if options.Program == "" {
		go d.newReminder().remindUntilDone(ctx)
		return d, nil
	}
	if options.Dir == "" || options.ServerURL == "" {
		return nil, errors.New("the kwok driver needs a directory and the URL of the target's API server to start kwok's controller")
	}
	d.controller = newController(options, environment)
	go d.controller.runController(ctx)
	go d.newReminder().remindUntilDone(ctx)
	return d, nil
}

// ProviderID returns the provider ID of a Machine of a cluster.
func ProviderID(cluster, machine string) string { return "kwok://" + cluster + "/" + machine }

func (d *Driver) providerID(machine string) string {
	return ProviderID(d.environment.ClusterName, machine)
}

// Create implements driver.Driver. Without a controller that could make it Ready, no Node is created.
func (d *Driver) Create(ctx context.Context, request driver.Request) (driver.Instance, error) {
	want, err := d.resolveDesired(request)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := d.checkController(); err != nil {
		return driver.Instance{}, err
	}
	name := request.Machine.Name
	existing, err := d.readNode(ctx, name)
	if err == nil {
		d.startController()
		return d.describeInstance(existing, request), nil
	}
	if !errors.Is(err, driver.ErrNotFound) {
		return driver.Instance{}, err
	}
	tainted, err := d.isTainted(ctx, want)
	if err != nil {
		return driver.Instance{}, err
	}
	node := d.renderNode(request.Machine, want, tainted)
	if err := d.environment.Target.Client.Create(ctx, node); err != nil {
		return driver.Instance{}, fmt.Errorf("creating node %s: %w", name, err)
	}
	d.nodes.Observed(node)
	d.startController()
	return d.describeInstance(node, request), nil
}

// checkController says what keeps the controller from being started.
func (d *Driver) checkController() error {
	if d.controller == nil {
		return nil
	}
	if err := d.controller.checkProgram(); err != nil {
		return &driver.RetryableError{After: programRecheck, Err: err}
	}
	return nil
}

func (d *Driver) startController() {
	if d.controller != nil {
		d.controller.requireRunning()
	}
}

// CheckUpdate implements driver.Driver: all that a configuration says can be changed on a Node that stays.
func (d *Driver) CheckUpdate(_ context.Context, request driver.Request) error {
	_, err := d.resolveDesired(request)
	return err
}

// Update implements driver.Driver. The Node's status comes first: until all is written, the annotation tells that it is out of date.
func (d *Driver) Update(ctx context.Context, request driver.Request) (driver.Instance, error) {
	want, err := d.resolveDesired(request)
	if err != nil {
		return driver.Instance{}, err
	}
	node, err := d.readNode(ctx, request.Machine.Name)
	if err != nil {
		return driver.Instance{}, err
	}
	if node.DeletionTimestamp == nil && !matchesDesired(node, want) {
		if err := d.updateNode(ctx, node, want); err != nil {
			return driver.Instance{}, err
		}
	}
	return d.describeInstance(node, request), nil
}

func (d *Driver) updateNode(ctx context.Context, node *corev1.Node, want desired) error {
	status, err := statusPatch(node, want)
	if err != nil {
		return err
	}
	if err := d.environment.Target.Client.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, status)); err != nil {
		return fmt.Errorf("patching the status of node %s: %w", node.Name, err)
	}
	mark, err := markPatch(node, want)
	if err != nil {
		return err
	}
	if err := d.environment.Target.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, mark)); err != nil {
		return fmt.Errorf("patching node %s: %w", node.Name, err)
	}
	d.nodes.Observed(node)
	return nil
}

// Get implements driver.Driver. A Node of that name that is not the Machine's is none.
func (d *Driver) Get(ctx context.Context, request driver.Request) (driver.Instance, error) {
	name := request.Machine.Name
	node := &corev1.Node{}
	err := d.environment.Target.Client.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) || err == nil && (d.nodes.Behind(node) || !d.isOwn(node)) {
		node, err = d.readNode(ctx, name)
	}
	var conflict *driver.NameConflictError
	if errors.As(err, &conflict) {
		err = &driver.NotFoundError{Machine: name, ProviderID: d.providerID(name)}
	}
	if err != nil {
		return driver.Instance{}, fmt.Errorf("getting node %s: %w", name, err)
	}
	return d.describeInstance(node, request), nil
}

// Delete implements driver.Driver. It takes the one Node away that it has just read and that is the Machine's, and no other. Many write to a
// Node: one that has changed meanwhile is read and judged again.
func (d *Driver) Delete(ctx context.Context, machine *v1alpha1.Machine) error {
	err := d.deleteNode(ctx, machine)
	for attempt := 1; attempt < deletionAttempts && apierrors.IsConflict(err); attempt++ {
		err = d.deleteNode(ctx, machine)
	}
	return err
}

func (d *Driver) deleteNode(ctx context.Context, machine *v1alpha1.Machine) error {
	node, err := d.readNode(ctx, machine.Name)
	var conflict *driver.NameConflictError
	switch {
	case errors.Is(err, driver.ErrNotFound), errors.As(err, &conflict):
		d.nodes.Forget(client.ObjectKey{Name: machine.Name})
		return nil
	case err != nil:
		return err
	case node.DeletionTimestamp != nil:
		return nil
	case isClaimedByAnother(node, machine):
		return &driver.NameConflictError{Problem: fmt.Sprintf("node %s belongs to machine %q of namespace %q by its annotations: remove them if it is that of this Machine",
			node.Name, node.Annotations[v1alpha1.NodeMachineAnnotation], node.Annotations[v1alpha1.NodeClusterNamespaceAnnotation])}
	}
	uid, version := node.UID, node.ResourceVersion
	err = d.environment.Target.Client.Delete(ctx, node, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting node %s: %w", node.Name, err)
	}
	return nil
}

// List implements driver.Driver. It asks the API server.
func (d *Driver) List(ctx context.Context) ([]driver.Instance, error) {
	nodes := &corev1.NodeList{}
	err := d.environment.Target.Reader.List(ctx, nodes, client.MatchingLabels{v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var instances []driver.Instance
	for i := range nodes.Items {
		if d.isOwn(&nodes.Items[i]) {
			instances = append(instances, d.describeInstance(&nodes.Items[i], driver.Request{}))
		}
	}
	return instances, nil
}

// cacheTimeout bounds how long a count waits for a cache that is not there yet.
const cacheTimeout = time.Second

// Count implements driver.Counter. The cache is enough to know of Nodes; that there are none is asked of the API server.
func (d *Driver) Count(ctx context.Context) (int, error) {
	bounded, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	nodes := &corev1.NodeList{}
	err := d.environment.Target.Client.List(bounded, nodes, client.MatchingLabels{v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue}, client.UnsafeDisableDeepCopy)
	count := 0
	for i := range nodes.Items {
		if d.isOwn(&nodes.Items[i]) && nodes.Items[i].DeletionTimestamp == nil {
			count++
		}
	}
	if err == nil && count > 0 {
		return count, nil
	}
	instances, err := d.List(ctx)
	if err != nil {
		return 0, err
	}
	count = 0
	for _, instance := range instances {
		if instance.State != driver.Deleting {
			count++
		}
	}
	return count, nil
}

// readNode gets a Machine's Node from the API server. One that is not this driver's is *driver.NameConflictError.
func (d *Driver) readNode(ctx context.Context, machine string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := d.environment.Target.Reader.Get(ctx, client.ObjectKey{Name: machine}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &driver.NotFoundError{Machine: machine, ProviderID: d.providerID(machine)}
		}
		return nil, fmt.Errorf("getting node %s: %w", machine, err)
	}
	if !d.isOwn(node) {
		return nil, &driver.NameConflictError{Foreign: true, Problem: fmt.Sprintf(
			"a Node named %q exists and was not created by provider kwok for this Machine (its provider ID is %q): delete the Machine and create it with another name, or delete the Node",
			node.Name, node.Spec.ProviderID)}
	}
	d.nodes.Observed(node)
	return node, nil
}

// isOwn reports whether the driver has created node. The provider ID of a Node cannot be changed once it has one, and the driver gives
// it to a Node that has just been created.
func (d *Driver) isOwn(node *corev1.Node) bool {
	return node.Spec.ProviderID == d.providerID(node.Name)
}

// isClaimedByAnother reports whether the agent's annotations tie node to another Machine.
func isClaimedByAnother(node *corev1.Node, machine *v1alpha1.Machine) bool {
	for key, want := range map[string]string{v1alpha1.NodeMachineAnnotation: machine.Name, v1alpha1.NodeClusterNamespaceAnnotation: machine.Namespace} {
		if found, there := node.Annotations[key]; there && found != want {
			return true
		}
	}
	return false
}
