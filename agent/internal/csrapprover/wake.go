package csrapprover

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
)

// OnThaw returns a source that asks for a look at every open request when the agent has thawed.
func (c *Controller) OnThaw(checker freeze.Checker, changes <-chan struct{}) func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go freeze.OnThaw(ctx, checker, changes, func(ctx context.Context) { c.wakeAll(ctx, queue) })
		return nil
	}
}

func (c *Controller) wakeAll(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := c.Target.List(ctx, requests); err != nil {
		klog.FromContext(ctx).Error(err, "Waking the certificate requests after the thaw failed")
		return
	}
	for i := range requests.Items {
		if Open(&requests.Items[i]) {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&requests.Items[i])})
		}
	}
}
