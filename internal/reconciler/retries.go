package reconciler

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// An object that fails is tried again after FirstRetry, then twice as long each time, up to LastRetry: an API server
// that refuses every write for an hour is not hammered, and what it missed reaches it soon after.
const (
	FirstRetry = 200 * time.Millisecond
	LastRetry  = time.Minute
)

// Retries returns the rate limiter of one controller.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry, LastRetry)
}
