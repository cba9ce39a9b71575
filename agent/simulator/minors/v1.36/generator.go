package minor

import "k8s.io/kubernetes/pkg/kubelet/pleg"

// Generator is a kubelet's generator of pod events, which is started just before its sync loop.
type Generator struct {
	pleg.PodLifecycleEventGenerator
	// BeforeStart is called before.
	BeforeStart func()
}

// Start starts it.
func (g Generator) Start() {
	g.BeforeStart()
	g.PodLifecycleEventGenerator.Start()
}
