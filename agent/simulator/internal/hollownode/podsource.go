package hollownode

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// watchPods gives the kubelet the source of pods that it would make for itself: those of the API server, once hasSynced reports that the
// Node is known. It ends with the node. That of a kubelet waits on wait.NeverStop, which may be lent to another node by then.
func (n *node) watchPods(ctx context.Context, dependencies *kubelet.Dependencies, hasSynced func() bool) error {
	pods := config.NewPodConfig(dependencies.Recorder, dependencies.PodStartupLatencyTracker)
	giveBack := func() {}
	synced := func() bool {
		_ = n.life.endGoroutine() // That of the source can be ended.
		if !hasSynced() {
			return false
		}
		giveBack = shared.lendStop(n.life)
		n.life.atEnd(giveBack) // The source of a node that ends now asks for nothing.
		return true
	}
	client := podSourceClient{Interface: dependencies.KubeClient, ask: func() {
		giveBack()
		_ = n.life.endGoroutine()
	}}
	config.NewSourceApiserver(klog.FromContext(ctx), client, types.NodeName(n.configuration.NodeName), synced, pods.Channel(ctx, kubetypes.ApiserverSource))
	dependencies.PodConfig = pods
	return n.watchStaticPods(ctx, pods)
}

// podSourceClient calls ask before each request of the source.
type podSourceClient struct {
	clientset.Interface
	ask func()
}

// CoreV1 returns what the source uses.
func (c podSourceClient) CoreV1() typedcorev1.CoreV1Interface {
	return podSourceCore{CoreV1Interface: c.Interface.CoreV1(), ask: c.ask}
}

type podSourceCore struct {
	typedcorev1.CoreV1Interface
	ask func()
}

// RESTClient returns what the source uses.
func (c podSourceCore) RESTClient() rest.Interface {
	return podSourceREST{Interface: c.CoreV1Interface.RESTClient(), ask: c.ask}
}

type podSourceREST struct {
	rest.Interface
	ask func()
}

// Get starts a request.
func (c podSourceREST) Get() *rest.Request {
	c.ask()
	return c.Interface.Get()
}
