package minor

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/cm/resourceupdates"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/status"
)

// ClaimOptions are what a node with DRA drivers needs.
type ClaimOptions struct {
	// Client is the kubelet's.
	Client clientset.Interface
	// Directory gets the checkpoint of prepared ResourceClaims.
	Directory string
	// Started is called when drivers can register; pods start after it.
	Started func(context.Context)
}

// Claims is a container manager with the kubelet's own DRA manager.
type Claims struct {
	cm.ContainerManager
	options ClaimOptions
	claims  *dra.Manager
	updates chan resourceupdates.Update
}

// WithClaims returns a container manager whose node prepares ResourceClaims. Nothing of it runs before the kubelet starts it.
func WithClaims(logger klog.Logger, manager cm.ContainerManager, options ClaimOptions) (*Claims, error) {
	claims, err := dra.NewManager(logger, options.Client, options.Directory)
	if err != nil {
		return nil, fmt.Errorf("making the DRA manager: %w", err)
	}
	return &Claims{ContainerManager: manager, options: options, claims: claims, updates: make(chan resourceupdates.Update, 1)}, nil
}

// Start starts the manager, until ctx ends.
func (c *Claims) Start(ctx context.Context, node *corev1.Node, pods cm.ActivePodsFunc, getNode cm.GetNodeFunc, ready config.SourcesReady,
	statuses status.PodStatusProvider, runtime internalapi.RuntimeService, isolation bool,
) error {
	if err := c.claims.Start(ctx, dra.ActivePodsFunc(pods), dra.GetNodeFunc(getNode), ready); err != nil {
		return fmt.Errorf("starting the DRA manager: %w", err)
	}
	// Its connections do not end with ctx.
	if plugins, ok := c.claims.GetWatcherHandler().(interface{ Stop() }); ok {
		context.AfterFunc(ctx, plugins.Stop)
	}
	go c.forwardUpdates(ctx)
	if err := c.ContainerManager.Start(ctx, node, pods, getNode, ready, statuses, runtime, isolation); err != nil {
		return err
	}
	c.options.Started(ctx)
	return nil
}

// RegisterDriver does what the kubelet does when it finds the registration socket of a driver.
func (c *Claims) RegisterDriver(_ context.Context, driver, socket string, services []string) error {
	handler := c.claims.GetWatcherHandler()
	if err := handler.ValidatePlugin(driver, socket, services); err != nil {
		return err
	}
	return handler.RegisterPlugin(driver, socket, services, nil)
}

// PrepareDynamicResources prepares the claims of a pod.
func (c *Claims) PrepareDynamicResources(ctx context.Context, pod *corev1.Pod) error {
	return c.claims.PrepareResources(ctx, pod)
}

// UnprepareDynamicResources gives the claims of a pod back.
func (c *Claims) UnprepareDynamicResources(ctx context.Context, pod *corev1.Pod) error {
	return c.claims.UnprepareResources(ctx, pod)
}

// PodMightNeedToUnprepareResources is that a pod has claims.
func (c *Claims) PodMightNeedToUnprepareResources(pod types.UID) bool {
	return c.claims.PodMightNeedToUnprepareResources(pod)
}

// GetResources are those of the claims of a container, which have to be prepared, beside its other ones.
func (c *Claims) GetResources(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (*kubecontainer.RunContainerOptions, error) {
	options, err := c.ContainerManager.GetResources(ctx, pod, container)
	if err != nil {
		return nil, err
	}
	prepared, err := c.claims.GetResources(pod, container)
	if err != nil {
		return nil, err
	}
	options.CDIDevices = append(options.CDIDevices, prepared.CDIDevices...)
	return options, nil
}

// UpdateAllocatedResourcesStatus adds the health of a pod's devices to its status.
func (c *Claims) UpdateAllocatedResourcesStatus(pod *corev1.Pod, status *corev1.PodStatus) {
	c.ContainerManager.UpdateAllocatedResourcesStatus(pod, status)
	c.claims.UpdateAllocatedResourcesStatus(pod, status)
}

// Updates has the pods whose devices have changed.
func (c *Claims) Updates() <-chan resourceupdates.Update { return c.updates }

func (c *Claims) forwardUpdates(ctx context.Context) {
	for {
		var update resourceupdates.Update
		select {
		case update = <-c.claims.Updates():
		case update = <-c.ContainerManager.Updates():
		case <-ctx.Done():
			return
		}
		select {
		case c.updates <- update:
		case <-ctx.Done():
			return
		}
	}
}
