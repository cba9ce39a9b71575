// Package agent is the agent of one workload cluster: it makes the cluster's Machines, which stand on the hub,
// real. Run does all of it; cmd/agent only parses its options.
//
// On the hub an agent reads its own Cluster, and Machines and MachineClasses of its own namespace; it writes
// spec.providerID, finalizer and status of Machines, its Lease, its part of the Cluster's status, and events. With
// a token of its ServiceAccount as its credential it asks for the next one.
//
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,resourceNames=hollowfleet-agent,verbs=create
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines,verbs=get;list;watch;patch;update
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machineclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=hollowfleet-agent,verbs=get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
package agent
