package podhost

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

const (
	// NodeLabel marks the Nodes of podhosts.
	NodeLabel = "hollowfleet.io/podhost"
	// HollowHostTaint marks hosts that are dedicated to the pods of hollow
	// nodes. Those pods tolerate it everywhere. Ordinary pods do not, and so
	// go to hollow nodes.
	HollowHostTaint = "hollowfleet.io/hollow-host"
	// runtimeName is how the podhost names itself as a container runtime.
	runtimeName = "podhost"

	registrationRetry = time.Second
	statusInterval    = 5 * time.Minute
)

// newNode describes the Node. It is ready from the start: it is registered
// when pods can run.
func newNode(o Options, address net.IP, port int) *corev1.Node {
	now := metav1.Now()
	build := version.Get()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Name,
			Labels: map[string]string{
				corev1.LabelHostname:             o.Name,
				corev1.LabelOSStable:             runtime.GOOS,
				corev1.LabelArchStable:           runtime.GOARCH,
				corev1.LabelNodeExcludeBalancers: "",
				NodeLabel:                        "true",
			},
		},
		Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{Key: HollowHostTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{
			Capacity:    o.Capacity,
			Allocatable: o.Capacity,
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "PodhostReady", "pods run as processes of this machine", now),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "NotMeasured", "the podhost does not measure memory", now),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "NotMeasured", "the podhost does not measure disks", now),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "NotMeasured", "the podhost does not count processes", now),
			},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address.String()},
				// By this one the API server of a simulated cluster finds the kubelet API.
				{Type: corev1.NodeInternalDNS, Address: address.String()},
				{Type: corev1.NodeHostName, Address: o.Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem:         runtime.GOOS,
				Architecture:            runtime.GOARCH,
				KubeletVersion:          build.GitVersion,
				ContainerRuntimeVersion: runtimeName + "://" + build.GitVersion,
				OSImage:                 "local processes",
			},
		},
	}
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string, now metav1.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
}

// runNode registers the Node and keeps its Lease and status until the context ends. At rest that is one Lease write every ten seconds and
// one status write every five minutes.
func runNode(ctx context.Context, client kubernetes.Interface, description *corev1.Node, registered func()) {
	wait.UntilWithContext(ctx, func(ctx context.Context) { // A controller cannot be run twice.
		controller, err := newNodeController(client, description.DeepCopy())
		if err == nil {
			go controller.Run(ctx) //nolint:errcheck // the error is read from the controller below
			select {
			case <-controller.Ready():
				registered()
				<-controller.Done()
			case <-controller.Done():
			}
			err = controller.Err()
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Registering the node failed, will retry", "node", description.Name)
		}
	}, registrationRetry)
}

func newNodeController(client kubernetes.Interface, description *corev1.Node) (*node.NodeController, error) {
	controller, err := node.NewNodeController(
		node.NaiveNodeProvider{},
		description,
		client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(nodeutil.NodeLeaseV1Client(client), node.DefaultLeaseDuration),
		node.WithNodeStatusUpdateInterval(statusInterval),
		node.WithNodeStatusUpdateErrorHandler(func(ctx context.Context, err error) error {
			if !apierrors.IsNotFound(err) {
				return err
			}
			// A user deleted the Node. Its pods still run here.
			_, err = client.CoreV1().Nodes().Create(ctx, description, metav1.CreateOptions{})
			return err
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("making the node controller: %w", err)
	}
	return controller, nil
}
