package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is a workload cluster whose agent works for this hub. Its name is also the name of its namespace
// on the hub, so it is short and a DNS label.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=hfc,categories=fleet
// +kubebuilder:printcolumn:name="Acceptance",type=string,JSONPath=`.spec.acceptance`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Frozen",type=string,JSONPath=`.status.conditions[?(@.type=="Frozen")].status`
// +kubebuilder:printcolumn:name="Frozen Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Frozen")].reason`
// +kubebuilder:printcolumn:name="Machines",type=integer,JSONPath=`.status.machines.total`
// +kubebuilder:printcolumn:name="Ready Machines",type=integer,JSONPath=`.status.machines.ready`
// +kubebuilder:printcolumn:name="Kubernetes",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.agentVersion`,priority=1
// +kubebuilder:printcolumn:name="Clock Skew",type=string,JSONPath=`.status.clockSkew`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: at most 63 characters, because the name is also a namespace and a label value"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: lower-case letters, digits and '-' only, starting and ending with a letter or digit, because the name is also a namespace"
// +kubebuilder:validation:XValidation:rule="!(self.metadata.name in ['default', 'hollowfleet', 'hollowfleet-system', 'cert-manager']) && !self.metadata.name.startsWith('kube-') && !self.metadata.name.startsWith('openshift-') && !self.metadata.name.startsWith('open-cluster-management')",message="metadata.name: reserved for a namespace of the hub itself or of an agent (default, hollowfleet, hollowfleet-system, cert-manager, kube-*, openshift-*, open-cluster-management*): choose another name"
type Cluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user. An empty spec is a cluster that waits for acceptance.
	// +kubebuilder:default={}
	// +optional
	Spec ClusterSpec `json:"spec,omitzero"`
	// status is written by the hub and, where a field says so, by the cluster's agent.
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "The hub has not observed this cluster yet", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Pending", message: "The hub has not observed this cluster yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	// +optional
	Status ClusterStatus `json:"status,omitzero"`
}

// Acceptance is the user's word on whether a cluster may join.
//
// +kubebuilder:validation:Enum=Pending;Accepted;Denied
type Acceptance string

// The values of Acceptance.
const (
	// AcceptancePending: no user has decided yet; the cluster gets no namespace.
	AcceptancePending Acceptance = "Pending"
	// AcceptanceAccepted: the cluster gets its namespace and its agent may work.
	AcceptanceAccepted Acceptance = "Accepted"
	// AcceptanceDenied: the agent loses its access. Namespace, Machines and Nodes stay as they are.
	AcceptanceDenied Acceptance = "Denied"
)

// AcceptancePolicy says who decides that a pending cluster may join.
//
// +kubebuilder:validation:Enum=Manual;Auto
type AcceptancePolicy string

// The values of AcceptancePolicy.
const (
	// AcceptanceManual: a person sets spec.acceptance.
	AcceptanceManual AcceptancePolicy = "Manual"
	// AcceptanceAuto: a pending cluster counts as accepted. Any agent with its join token joins at once.
	AcceptanceAuto AcceptancePolicy = "Auto"
)

// CredentialType is a kind of credential.
//
// +kubebuilder:validation:Enum=Certificate;ServiceAccountToken
type CredentialType string

// The values of CredentialType.
const (
	// CredentialCertificate: a client certificate that the hub's API server signs for the agent's own key.
	CredentialCertificate CredentialType = "Certificate"
	// CredentialServiceAccountToken: a token of the ServiceAccount hollowfleet-agent in the cluster's
	// namespace, for hubs whose API server signs no client certificates.
	CredentialServiceAccountToken CredentialType = "ServiceAccountToken"
)

// Accepted reports whether the user lets the cluster join. A denied cluster never joins, and one that waits for a
// decision does only if its policy is Auto.
func (c *Cluster) Accepted() bool {
	switch c.Spec.Acceptance {
	case AcceptanceAccepted:
		return true
	case AcceptanceDenied:
		return false
	case AcceptancePending:
	}
	return c.Spec.AcceptancePolicy == AcceptanceAuto
}

// IsSimulated reports whether the hub made c for a SimulatedCluster.
func (c *Cluster) IsSimulated() bool { return c.Annotations[SimulatedClusterAnnotation] != "" }

// IsLeaving reports whether the cluster is about to be removed, so that nothing is to begin in it.
func (c *Cluster) IsLeaving() bool {
	_, leaving := c.Annotations[LeavingAnnotation]
	return leaving
}

// ClusterSpec is the user's will for a cluster.
type ClusterSpec struct {
	// acceptance lets the cluster join. Default Pending.
	// +kubebuilder:default=Pending
	// +optional
	Acceptance Acceptance `json:"acceptance,omitempty"`

	// acceptancePolicy says what happens while acceptance is Pending. Default Manual.
	// +kubebuilder:default=Manual
	// +optional
	AcceptancePolicy AcceptancePolicy `json:"acceptancePolicy,omitempty"`

	// credential is the kind of credential that the agent uses on the hub. Default Certificate.
	// +kubebuilder:default=Certificate
	// +optional
	Credential CredentialType `json:"credential,omitempty"`

	// heartbeat sets how the hub judges whether the agent is connected. Default per field: the hub's flags
	// --heartbeat-period and --heartbeat-grace.
	// +optional
	Heartbeat Heartbeat `json:"heartbeat,omitzero"`

	// healthChecks are made by the cluster's agent, which reports each as a condition of the Cluster. A MachineFleet rests on
	// those that its spec.healthConditions names.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	HealthChecks []ClusterHealthCheck `json:"healthChecks,omitempty"`
}

// ClusterHealthCheck is what the agent of a cluster looks at there.
type ClusterHealthCheck struct {
	// type of the condition on the Cluster, such as example.com/FrontendAvailable: a DNS name, a slash and a word, so that it is
	// none of the hub's own.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +required
	Type string `json:"type"`
	// deployment of the workload cluster whose replicas are all to be available. While it does not exist, the condition is
	// False; while it is scaled to 0, Unknown.
	// +required
	Deployment DeploymentReference `json:"deployment"`
}

// DeploymentReference names a Deployment of a workload cluster.
type DeploymentReference struct {
	// namespace of the Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Namespace string `json:"namespace"`
	// name of the Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
}

// Heartbeat times the Lease that a cluster's agent renews on the hub.
//
// +kubebuilder:validation:XValidation:rule="!has(self.graceSeconds) || !has(self.periodSeconds) || self.graceSeconds >= 2 * self.periodSeconds",message="graceSeconds: at least twice periodSeconds, or one lost renewal counts as a lost agent"
type Heartbeat struct {
	// periodSeconds is how often the agent renews its Lease. Default: the hub's, which is 10 unless its flag
	// says otherwise.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
	// graceSeconds is how long the hub waits for a change of the Lease, by its own clock, before it calls
	// the agent silent. Default: the hub's, which is 40 unless its flag says otherwise, and at least twice
	// periodSeconds.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=86400
	// +optional
	GraceSeconds int32 `json:"graceSeconds,omitempty"`
}

// DefaultHeartbeat is what a hub without flags uses.
var DefaultHeartbeat = Heartbeat{PeriodSeconds: 10, GraceSeconds: 40}

// Or returns h with what it leaves open taken from fallback.
func (h *Heartbeat) Or(fallback Heartbeat) Heartbeat {
	merged := *h
	if merged.PeriodSeconds == 0 {
		merged.PeriodSeconds = fallback.PeriodSeconds
		if merged.GraceSeconds != 0 {
			merged.PeriodSeconds = max(min(merged.PeriodSeconds, merged.GraceSeconds/2), 1)
		}
	}
	if merged.GraceSeconds == 0 {
		merged.GraceSeconds = max(fallback.GraceSeconds, 2*merged.PeriodSeconds)
	}
	return merged
}

// Heartbeat is the heartbeat in force: what the hub has published, until then what spec and the defaults say.
func (c *Cluster) Heartbeat() Heartbeat {
	if c.Status.Heartbeat != nil {
		return *c.Status.Heartbeat
	}
	return c.Spec.Heartbeat.Or(DefaultHeartbeat)
}

// ClusterStatus is what hub and agent know of a cluster.
type ClusterStatus struct {
	// observedGeneration is the generation that the hub last worked on. Written by the hub.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// namespace holds the cluster's objects on the hub. Written by the hub once it has made it.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// hubVersion is the version of the hub. An agent that is more than one minor version apart is frozen for VersionSkew.
	// Written by the hub.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	HubVersion string `json:"hubVersion,omitempty"`
	// joinKey is the SHA-256 digest, in hexadecimal digits, of the public key of the certificate that was last approved with a join
	// token. If another key is approved, event JoinedAgain warns. Written by the hub.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	JoinKey string `json:"joinKey,omitempty"`
	// heartbeat is the one in force: spec.heartbeat with the hub's defaults. Written by the hub.
	// +optional
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
	// machines counts the cluster's Machines. Written by the hub.
	// +optional
	Machines *MachineCounts `json:"machines,omitempty"`

	// clockSkew is how far the agent's clock is ahead of the hub's, in whole seconds, negative if behind; the
	// time that a Lease renewal takes to arrive makes it up to a second less. Absent below 2 seconds. Written
	// by the hub.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[-+]?(0|([0-9]{1,5}(\.[0-9]{1,9})?h|[0-9]{1,7}(\.[0-9]{1,9})?m|[0-9]{1,9}(\.[0-9]{1,9})?s|[0-9]{1,12}(\.[0-9]{1,9})?(ms|us|µs|ns))+)$`
	// +optional
	ClockSkew *metav1.Duration `json:"clockSkew,omitempty"`

	// clusterUID is the UID of the workload cluster's kube-system namespace: its identity. Written by the agent.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
	// kubernetesVersion is the version of the workload cluster's API server; of one that emulates an earlier minor, that minor, such as
	// v1.36.0. Written by the agent.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// agentVersion is the version of the agent. Written by the agent.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// capacity is the sum of the Nodes of this cluster's Machines. Written by the agent.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// unacknowledgedHub identifies what the agent found when this hub turned out to be another than the one that it
	// knew: new, empty, or restored from a backup. While it is set the agent stays frozen and AgentFrozen tells what was
	// found, until a person acknowledges the hub with kubectl hollow cluster acknowledge. Written by the agent.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	UnacknowledgedHub string `json:"unacknowledgedHub,omitempty"`

	// orphans is what there is in the workload cluster of agents' making without a Machine on the hub; absent if there is
	// nothing. It is reported and left alone: a Machine that is missing orders nothing. Written by the agent.
	// +optional
	Orphans *Orphans `json:"orphans,omitempty"`

	// podQuota is the ResourceQuota that leaves the least room for hollow-node pods where the agent makes them; absent if none
	// bounds them. Quotas with scopes are left out. Written by the agent.
	// +optional
	PodQuota *PodQuota `json:"podQuota,omitempty"`

	// freezes are those of this cluster that are over, oldest first: for as long, no Machine came nearer to being
	// available. Beyond 32, the oldest is added to the one after it. Written by the hub.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Freezes []Freeze `json:"freezes,omitempty"`

	// conditions: Accepted, Joined, AgentConnected, Frozen, Mirrored, Ready, Reconciling and Stalled written by the hub;
	// TargetReachable, AgentFrozen, DisruptionAllowed, SimulatedClustersAllowed and those of spec.healthChecks written by the agent. Others may write
	// conditions of their own.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Freeze is one of the past.
type Freeze struct {
	// since is when it started.
	Since metav1.Time `json:"since"`
	// until is when it was over, rounded up to a second.
	Until metav1.Time `json:"until"`
}

// Orphans are objects of a workload cluster that belong to Machines which the hub does not have.
type Orphans struct {
	// instances counts hollow-node pods, or other providers' instances.
	Instances int32 `json:"instances"`
	// nodes counts Nodes that an agent of this cluster has tied to a Machine.
	Nodes int32 `json:"nodes"`
	// certificateRequests counts Nodes with requests for certificates.
	CertificateRequests int32 `json:"certificateRequests"`
	// names has the first ten, such as instance/workers-x7k2p, node/workers-x7k2p, certificate request/workers-x7k2p.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Names []string `json:"names,omitempty"`
}

// PodQuota is a ResourceQuota, by what it leaves.
type PodQuota struct {
	// namespace of the ResourceQuota.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`
	// name of the ResourceQuota.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// remaining is how many more pods it allows, never less than 0.
	// +required
	Remaining int32 `json:"remaining"`
}

// MachineCounts counts Machines by state.
type MachineCounts struct {
	// total is every Machine of the cluster, those being deleted too.
	Total int32 `json:"total"`
	// ready is those whose Ready condition is True and that are not being deleted.
	Ready int32 `json:"ready"`
	// failed is those in phase Failed.
	Failed int32 `json:"failed"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Cluster `json:"items"`
}
