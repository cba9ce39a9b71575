// Package localclusters is how the agent of a host has simulated clusters run by the keeper of the local fleet that it belongs to: the
// process "kubectl hollow local keep". The keeper serves a unix socket in the fleet's directory, and speaks JSON over HTTP there.
//
// The package has the types, a Client for the agent, and a Handler for the keeper.
package localclusters

import "time"

const (
	// SocketName is the name of the keeper's socket in the directory of a fleet. Only the user of the fleet may use it.
	SocketName = "keeper.sock"

	// maxRequest bounds the body of a request, maxAnswer that of an answer.
	maxRequest = 1 << 20
	maxAnswer  = 16 << 20
)

// Desired is a simulated cluster that the keeper is to run.
type Desired struct {
	// UID is that of the SimulatedCluster. A cluster with another UID is another cluster, also if it has the same name.
	UID string `json:"uid"`
	// ControlPlaneVersion is the Kubernetes version of the control plane, such as v1.36. Empty: that of the keeper's programs.
	ControlPlaneVersion string `json:"controlPlaneVersion,omitempty"`
	// Resources are those of the control plane. The keeper has its room for RequestsMemory, and enforces no other.
	Resources Resources `json:"resources,omitzero"`
	// Hub is where the cluster's agent finds its hub.
	Hub HubAccess `json:"hub"`
	// Certificate and Key, PEM encoded, are what the cluster's agent shows to the hub first. It renews them itself: the keeper uses them
	// only while the agent has none that is valid for longer. Both may be empty for a cluster that has a credential.
	Certificate []byte `json:"certificate,omitempty"`
	Key         []byte `json:"key,omitempty"`
}

// Resources are quantities as Kubernetes writes them; empty for what is not asked for.
type Resources struct {
	RequestsCPU    string `json:"requestsCPU,omitempty"`
	RequestsMemory string `json:"requestsMemory,omitempty"`
	LimitsCPU      string `json:"limitsCPU,omitempty"`
	LimitsMemory   string `json:"limitsMemory,omitempty"`
}

// HubAccess is where a hub is, and how it shows that it is the hub.
type HubAccess struct {
	// Server is the URL of its API server, CA the certificates of its authority, PEM encoded.
	Server string `json:"server"`
	CA     []byte `json:"ca,omitempty"`
	// TLSName is the name in the server's certificate, if it is another than that of the URL.
	TLSName string `json:"tlsName,omitempty"`
}

// Phase says how far a cluster is.
type Phase string

const (
	// Starting is a cluster that is recorded, and not running yet, or not any more for a moment.
	Starting Phase = "Starting"
	// Running is a cluster whose API server has said that it is ready, at the time that Checked says, and whose agent's process runs.
	Running Phase = "Running"
	// Removing is a cluster that is being removed with all of its data.
	Removing Phase = "Removing"
	// Failed is a cluster that could not be started or removed, or of which a part does not answer. The keeper tries again.
	Failed Phase = "Failed"
)

// Cluster is what the keeper knows of a cluster.
type Cluster struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Phase says how far it is, and Message why it is not Running, or which of its resources are not enforced.
	Phase   Phase  `json:"phase"`
	Message string `json:"message,omitempty"`
	// Version is what the API server says of itself; the emulated minor, such as v1.36, if it emulates one. Empty until it has answered.
	Version string `json:"version,omitempty"`
	// ControllerManager and Scheduler are the versions of these, in the same form; empty while one does not run.
	ControllerManager string `json:"controllerManager,omitempty"`
	Scheduler         string `json:"scheduler,omitempty"`
	// Checked is when the API server said last that it is ready; absent if it does not say so.
	Checked *time.Time `json:"checked,omitempty"`
	// CredentialExpires is when the credential of the cluster's agent expires; absent if it has none.
	CredentialExpires *time.Time `json:"credentialExpires,omitempty"`
}

// ClusterList is what the keeper runs, and what it can run.
type ClusterList struct {
	// Clusters are in the order of their names. Those of the fleet itself are not among them.
	Clusters []Cluster `json:"clusters"`
	// Versions are those that a control plane can have, such as v1.36.
	Versions []string `json:"versions,omitempty"`
}
