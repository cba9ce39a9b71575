package minor

import (
	"context"

	"k8s.io/kubernetes/pkg/kubelet/pleg"
)

// Generator is a kubelet's generator of pod events. Its sync loop starts when Start has returned.
type Generator struct {
	pleg.PodLifecycleEventGenerator
	// BeforeSync is called between the start of the generator and that of the sync loop.
	BeforeSync func()
}

// Start starts the generator at once: until it has looked at the runtime, the Node is not Ready.
func (g Generator) Start(ctx context.Context) {
	g.PodLifecycleEventGenerator.Start(ctx)
	g.BeforeSync()
}
