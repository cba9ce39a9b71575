// Package queuemetrics turns off the metrics of work queues. Each queue with a name has a goroutine that wakes twice a second to
// count how long its work takes: seventy for each control plane of a process. What they count is of all clusters of the process, and
// nothing serves it.
package queuemetrics

import (
	"fmt"
	_ "unsafe" // For go:linkname.

	"k8s.io/client-go/util/workqueue"
)

// provider is the variable from which a new queue takes its metrics. A process may set it once, by SetProvider, which packages of
// Kubernetes do while they are initialised; queues without metrics have no goroutine only if it is the value that it had before.
//
//go:linkname provider k8s.io/client-go/util/workqueue.globalMetricsProvider
var provider workqueue.MetricsProvider

// none is the value from before. Packages are initialised in the order of their paths as far as imports allow, and this one, which
// imports only the work queue, comes before those of Kubernetes that set it.
var none = provider

// noneType is what none is.
const noneType = "workqueue.noopMetricsProvider"

// TurnOff lets queues that are made from now on have no metrics.
func TurnOff() error {
	if got := fmt.Sprintf("%T", none); got != noneType {
		return fmt.Errorf("turning off the metrics of work queues: before packages are initialised their provider is a %s, want a %s", got, noneType)
	}
	provider = none
	return nil
}
