package reconciler

import (
	"context"
	"errors"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// ReportUnwoken logs why objects that an event concerns were not found in the cache, and so not woken. It is silent while their kind is not
// cached: then the hub has just started, and the watch of that kind is still to come, which wakes for each of them.
func ReportUnwoken(ctx context.Context, err error, message string, keysAndValues ...any) {
	var starting *cache.ErrResourceNotCached
	if errors.As(err, &starting) {
		return
	}
	klog.FromContext(ctx).Error(err, message, keysAndValues...)
}
