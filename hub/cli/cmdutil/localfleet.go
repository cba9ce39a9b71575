package cmdutil

// LocalFleet is what is known of a fleet on this machine beside what its hub says.
type LocalFleet struct {
	// Kubeconfigs are those of the administrators of its clusters, by their names. One that has not started has none.
	Kubeconfigs map[string]string
	Processes   []LocalProcess
}

// LocalProcess is a process of a fleet on this machine.
type LocalProcess struct {
	Name string
	// Log is its file, and Metrics the URL of what Prometheus scrapes; empty if it has none.
	Log, Metrics string
}

// LocalFleet is the fleet on this machine whose hub this is; nil if the hub is elsewhere.
func (h *Hub) LocalFleet() *LocalFleet {
	if h.FindFleet == nil {
		return nil
	}
	config, err := h.Flags.ToRESTConfig()
	if err != nil {
		return nil
	}
	return h.FindFleet(config.Host, h.Flags.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence())
}

// WorkloadKubeconfig is the kubeconfig of a workload cluster where it is known: in a fleet on this machine. Elsewhere it is empty.
func (h *Hub) WorkloadKubeconfig(cluster string) string {
	if fleet := h.LocalFleet(); fleet != nil {
		return fleet.Kubeconfigs[cluster]
	}
	return ""
}
