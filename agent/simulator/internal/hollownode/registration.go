package hollownode

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
)

// reregisterTimeout bounds the call that brings a deleted Node back.
const reregisterTimeout = 10 * time.Second

// registration remembers what the kubelet registered its Node with, and does so again if a user deletes
// the Node. A kubelet registers once in its life and after that only fails to send its status. It is told
// of such failures by the kubelet itself, so watching for them costs nothing.
type registration struct {
	client     clientset.Interface
	providerID string
	// lost gets the error with which the process has to end, when the Node is another machine's.
	lost chan error

	mu   sync.Mutex
	node *corev1.Node
	// uid is that of the Node that was last found to be this kubelet's.
	uid types.UID
	// found is called with the UID of each such Node.
	found func(types.UID)
}

func newRegistration(client clientset.Interface, providerID string, found func(types.UID)) *registration {
	return &registration{client: client, providerID: providerID, lost: make(chan error, 1), found: found}
}

// wrapClient returns the client for the kubelet, which lets the registration see the Node.
func (r *registration) wrapClient(client clientset.Interface) clientset.Interface {
	return registeringClient{Interface: client, registration: r}
}

// restoreNode creates the Node again if it is missing. The kubelet calls it after the second of several failed
// attempts to send its status.
func (r *registration) restoreNode(ctx context.Context, node func(context.Context) (*corev1.Node, error)) {
	logger := klog.FromContext(ctx)
	if _, err := node(ctx); !apierrors.IsNotFound(err) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reregisterTimeout)
	defer cancel()
	_, err := r.client.CoreV1().Nodes().Create(ctx, r.node.DeepCopy(), metav1.CreateOptions{})
	switch {
	case err == nil:
		logger.Info("Registered the node again, because its Node object had been deleted", "Node", klog.KObj(r.node))
	case !apierrors.IsAlreadyExists(err):
		logger.Error(err, "Registering the node again failed, trying again with the next heartbeat", "Node", klog.KObj(r.node))
	}
}

func (r *registration) rememberNode(node *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = node.DeepCopy()
}

type registeringClient struct {
	clientset.Interface
	registration *registration
}

func (c registeringClient) CoreV1() typedcorev1.CoreV1Interface {
	return registeringCore{CoreV1Interface: c.Interface.CoreV1(), registration: c.registration}
}

type registeringCore struct {
	typedcorev1.CoreV1Interface
	registration *registration
}

func (c registeringCore) Nodes() typedcorev1.NodeInterface {
	return registeringNodes{NodeInterface: c.CoreV1Interface.Nodes(), registration: c.registration}
}

type registeringNodes struct {
	typedcorev1.NodeInterface
	registration *registration
}

// Create is called by the kubelet for its own Node only, also when that turns out to exist.
func (n registeringNodes) Create(ctx context.Context, node *corev1.Node, options metav1.CreateOptions) (*corev1.Node, error) {
	n.registration.rememberNode(node)
	created, err := n.NodeInterface.Create(ctx, node, options)
	if err != nil {
		return nil, err
	}
	return created, n.registration.checkNode(created)
}
