package reconciler

import "sigs.k8s.io/controller-runtime/pkg/client"

// MergeFromWithLock is a merge patch that the API server refuses with a conflict if the object has changed since before
// was read. A merge patch replaces a list as a whole, and a decision made on an older object may be wrong by now.
func MergeFromWithLock(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
