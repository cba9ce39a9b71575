package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MachineLogRequest asks the agent of a cluster for the end of the log of one Machine's node. It lives in the cluster's namespace on the hub.
// The agent answers once, in status. The hub deletes it five minutes after its creation, and whatever is beyond twenty in a namespace.
//
// A log may contain secrets, so no role but hollowfleet-log-reader has this kind: whoever reads it reads the log. It is in no category.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mlog
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.machineName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineLogRequest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// DecodeError says why spec and status could not be decoded; then both are empty. It is not a field of the API.
	DecodeError string `json:"-"`

	// spec is written by the user. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec: a request cannot be changed: create another one"
	// +required
	Spec MachineLogRequestSpec `json:"spec"`
	// status is written by the cluster's agent.
	// +kubebuilder:default={phase: "Pending"}
	// +optional
	Status MachineLogRequestStatus `json:"status,omitzero"`
}

// MachineLogRequestSpec is which log is asked for, and how much of it. The cluster is that of the request's namespace.
type MachineLogRequestSpec struct {
	// machineName is the Machine of this namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	MachineName string `json:"machineName"`
	// machineUID is metadata.uid of that Machine: one that was created later under the same name is not answered for. Default: any.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Type=string
	// +optional
	MachineUID types.UID `json:"machineUID,omitempty"`
	// tailLines is how many lines from the end of the log, at most 64 KiB of them. Default 100.
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	TailLines int32 `json:"tailLines,omitempty"`
	// sinceSeconds leaves out what is older than so many seconds. Default 0: nothing.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	// +optional
	SinceSeconds int32 `json:"sinceSeconds,omitempty"`
	// previous asks for the log of the container's run before the current one. Default false.
	// +optional
	Previous bool `json:"previous,omitempty"`
}

// MachineLogPhase says whether a request is answered.
//
// +kubebuilder:validation:Enum=Pending;Answered;Failed
type MachineLogPhase string

// The values of MachineLogPhase.
const (
	// MachineLogPending: the agent has not answered yet.
	MachineLogPending MachineLogPhase = "Pending"
	// MachineLogAnswered: log has what was asked for.
	MachineLogAnswered MachineLogPhase = "Answered"
	// MachineLogFailed: the log could not be read; reason and message say why.
	MachineLogFailed MachineLogPhase = "Failed"
)

// Reasons of a request that has failed.
const (
	// LogReasonMachineNotFound: there is no such Machine, or another one has its name.
	LogReasonMachineNotFound = "MachineNotFound"
	// LogReasonNoLog: the Machine's provider runs nothing that writes a log, such as kwok.
	LogReasonNoLog = "NoLog"
	// LogReasonPodNotFound: the Machine has no pod, or the pod no such run.
	LogReasonPodNotFound = "PodNotFound"
	// LogReasonForbidden: the agent may not read logs in its cluster.
	LogReasonForbidden = "Forbidden"
	// LogReasonUnavailable: the cluster's API server, or the kubelet behind it, has not answered.
	LogReasonUnavailable = "Unavailable"
)

// MachineLogRequestStatus is what the agent answers.
type MachineLogRequestStatus struct {
	// phase is Pending, Answered or Failed. Default Pending.
	// +kubebuilder:default=Pending
	// +optional
	Phase MachineLogPhase `json:"phase,omitempty"`
	// reason and message say why the request has failed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is for people.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// log is the end of the log. What looks like a token, a password or a private key is replaced in it by [redacted].
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Log string `json:"log,omitempty"`
	// truncated: lines that were asked for are left out at the beginning, because all have no room.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
	// pod whose log it is, as namespace/name.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	Pod string `json:"pod,omitempty"`
	// answeredAt is when the agent has answered.
	// +optional
	AnsweredAt *metav1.Time `json:"answeredAt,omitempty"`
}

// MachineLogRequestList is a list of MachineLogRequests.
//
// +kubebuilder:object:root=true
type MachineLogRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MachineLogRequest `json:"items"`
}
