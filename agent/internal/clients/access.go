package clients

import "sigs.k8s.io/controller-runtime/pkg/client"

// Hub is the hub as the agent's controllers see it.
type Hub struct {
	// Namespace is that of the cluster.
	Namespace string
	// Client reads from the cache; what it writes passes the freeze gate.
	client.Client
	// Live reads from the API server. Runs are read with it: a hub of an earlier release does not have their kinds, and a cache
	// would wait for them.
	Live client.Reader
}

// IsComplete reports whether nothing is missing.
func (h Hub) IsComplete() bool { return h.Namespace != "" && h.Client != nil && h.Live != nil }

// Host is where the hollow-node pods run, as the agent's controllers see it.
type Host struct {
	// Namespace is that of the pods.
	Namespace string
	// Client reads from the cache; what it writes passes the freeze gate.
	client.Client
}
