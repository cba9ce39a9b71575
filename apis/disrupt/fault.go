package disrupt

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FaultType is a kind of fault.
//
// +kubebuilder:validation:Enum=NotReady;FreezeHeartbeat;Flap;Kill;Reboot;Shutdown;RestartKubelet;Pressure;Condition;SlowAPI;APIErrors;PodStartDelay;PodStartFail;DeviceFailure;NeverJoin
type FaultType string

const (
	// NotReady lets the container runtime be down: the Node's condition Ready is False, and the kubelet starts and ends
	// no pods.
	NotReady FaultType = "NotReady"
	// FreezeHeartbeat stops the heartbeats, as of a machine that hangs or is cut off; see FreezeHeartbeat.heartbeat.
	FreezeHeartbeat FaultType = "FreezeHeartbeat"
	// Flap is NotReady in turn with a node that is well, within each window.
	Flap FaultType = "Flap"
	// Kill ends the hollow node's process at the beginning of each window, without any preparation. Its pod's restart
	// policy starts it again, with the usual back-off.
	Kill FaultType = "Kill"
	// Reboot ends the process like Kill, and it does not come up before the end of the window. Its Node has another boot
	// ID then.
	Reboot FaultType = "Reboot"
	// Shutdown shuts the machine down at the beginning of each window, and starts it at the window's end. The kubelet ends its pods
	// within the grace periods shutdownGracePeriod or shutdownGracePeriodByPodPriority of the Machine's KubeletConfiguration, lower
	// priorities first; without one the machine is off at once, as with Reboot. A window that ends before the machine is off cancels
	// the shutdown. Pods that have ended stay ended.
	Shutdown FaultType = "Shutdown"
	// RestartKubelet starts the kubelet again at the beginning of each window, as an upgrade of its package does: the containers
	// run on, and the Node keeps its boot ID and stays Ready.
	RestartKubelet FaultType = "RestartKubelet"
	// Pressure sets pressure conditions. The kubelet rejects pods for them as usual, and evicts none.
	Pressure FaultType = "Pressure"
	// Condition sets any other condition, as a node problem detector does.
	Condition FaultType = "Condition"
	// SlowAPI delays the kubelet's requests to the API server.
	SlowAPI FaultType = "SlowAPI"
	// APIErrors answers requests of the kubelet with errors instead of sending them.
	APIErrors FaultType = "APIErrors"
	// PodStartDelay delays each pod that is started.
	PodStartDelay FaultType = "PodStartDelay"
	// PodStartFail keeps pods from starting. Pods that run continue.
	PodStartFail FaultType = "PodStartFail"
	// DeviceFailure lets devices of the Node's MachineClass be unhealthy: allocatable falls, or for DRA devices their ResourceSlice has a
	// taint, and pods that have them say so in their status. A Node without such devices stays as it is.
	DeviceFailure FaultType = "DeviceFailure"
	// NeverJoin keeps a hollow node that is about to join from it until the end of the window, also one whose Machine is created
	// within the window. One that runs as a Node is not touched; when its process is restarted within a window, it does not come
	// back before the end.
	NeverJoin FaultType = "NeverJoin"
)

// FaultTypes are all kinds of faults.
var FaultTypes = []FaultType{
	NotReady, FreezeHeartbeat, Flap, Kill, Reboot, Shutdown, RestartKubelet, Pressure, Condition, SlowAPI, APIErrors, PodStartDelay, PodStartFail, DeviceFailure, NeverJoin,
}

// Fault is what goes wrong. The member that is named like the type has its parameters; no other may be set.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.flap) == (self.type == 'Flap') && has(self.pressure) == (self.type == 'Pressure') && has(self.condition) == (self.type == 'Condition') && has(self.slowAPI) == (self.type == 'SlowAPI') && has(self.podStartDelay) == (self.type == 'PodStartDelay') && (!has(self.freezeHeartbeat) || self.type == 'FreezeHeartbeat') && (!has(self.apiErrors) || self.type == 'APIErrors') && (!has(self.podStartFail) || self.type == 'PodStartFail') && (!has(self.deviceFailure) || self.type == 'DeviceFailure')",message="faults: set the parameters that are named like the type (required for Flap, Pressure, Condition, SlowAPI and PodStartDelay), and no other ones"
type Fault struct {
	// type is the kind of fault.
	Type FaultType `json:"type"`
	// freezeHeartbeat has the parameters of FreezeHeartbeat. Without it all heartbeats stop.
	// +optional
	FreezeHeartbeat *FreezeHeartbeatParameters `json:"freezeHeartbeat,omitempty"`
	// flap has the parameters of Flap. Required for it.
	// +optional
	Flap *FlapParameters `json:"flap,omitempty"`
	// pressure has the parameters of Pressure. Required for it.
	// +optional
	Pressure *PressureParameters `json:"pressure,omitempty"`
	// condition has the parameters of Condition. Required for it.
	// +optional
	Condition *ConditionParameters `json:"condition,omitempty"`
	// slowAPI has the parameters of SlowAPI. Required for it.
	// +optional
	SlowAPI *SlowAPIParameters `json:"slowAPI,omitempty"`
	// apiErrors has the parameters of APIErrors. Without it each request is answered with 503.
	// +optional
	APIErrors *APIErrorsParameters `json:"apiErrors,omitempty"`
	// podStartDelay has the parameters of PodStartDelay. Required for it.
	// +optional
	PodStartDelay *PodStartDelayParameters `json:"podStartDelay,omitempty"`
	// podStartFail has the parameters of PodStartFail. Without it no pod starts.
	// +optional
	PodStartFail *PodStartFailParameters `json:"podStartFail,omitempty"`
	// deviceFailure has the parameters of DeviceFailure. Without it all devices of the Node fail.
	// +optional
	DeviceFailure *DeviceFailureParameters `json:"deviceFailure,omitempty"`
}

// FrozenHeartbeat is a kind of heartbeat of a Node.
//
// +kubebuilder:validation:Enum=Lease;Status;Both
type FrozenHeartbeat string

const (
	// HeartbeatLease is the Node's Lease. Without it the Node becomes Unknown when the node-monitor grace period is over.
	// The kubelet then reports its status, which has changed, so that the Node is Ready again for as long.
	HeartbeatLease FrozenHeartbeat = "Lease"
	// HeartbeatStatus is the Node's status. As long as the Lease is renewed the Node stays as it is, whatever happens to it.
	HeartbeatStatus FrozenHeartbeat = "Status"
	// HeartbeatBoth is both, as of a machine that is gone. It is the default.
	HeartbeatBoth FrozenHeartbeat = "Both"
)

// FreezeHeartbeatParameters are those of FreezeHeartbeat.
//
// +kubebuilder:object:generate=true
type FreezeHeartbeatParameters struct {
	// heartbeat is what stops: Lease, Status or Both. Default Both.
	// +optional
	Heartbeat FrozenHeartbeat `json:"heartbeat,omitempty"`
}

// FlapParameters are those of Flap. A window starts with a node that is not ready. A kubelet needs up to 15 seconds until
// its Node says how it is, so shorter times are refused.
//
// +kubebuilder:object:generate=true
type FlapParameters struct {
	// notReadyFor is how long the node is not ready, 15s to 24h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('15s') && duration(self) <= duration('24h')",message="flap.notReadyFor: must be from 15s to 24h, because a kubelet needs up to 15s until its Node shows how it is"
	NotReadyFor metav1.Duration `json:"notReadyFor"`
	// readyFor is how long the node is well in between, 15s to 24h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('15s') && duration(self) <= duration('24h')",message="flap.readyFor: must be from 15s to 24h, because a kubelet needs up to 15s until its Node shows how it is"
	ReadyFor metav1.Duration `json:"readyFor"`
}

// PressureResource is what a node is short of.
//
// +kubebuilder:validation:Enum=Memory;Disk;PID
type PressureResource string

// The resources for which a kubelet reports pressure.
const (
	PressureMemory PressureResource = "Memory"
	PressureDisk   PressureResource = "Disk"
	PressurePID    PressureResource = "PID"
)

// PressureParameters are those of Pressure.
//
// +kubebuilder:object:generate=true
type PressureParameters struct {
	// resources are what the node is short of: Memory, Disk and PID.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Resources []PressureResource `json:"resources"`
}

// ConditionParameters are those of Condition.
//
// +kubebuilder:object:generate=true
type ConditionParameters struct {
	// type of the condition, such as KernelDeadlock or ReadonlyFilesystem. The kubelet's own ones are refused: NotReady and
	// Pressure are for these.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure', 'NetworkUnavailable'])",message="condition.type: it is the kubelet's own: use a fault of the type NotReady or Pressure"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="condition.type: want a name such as KernelDeadlock, or example.com/KernelDeadlock"
	Type corev1.NodeConditionType `json:"type"`
	// status is True, False or Unknown. Default True.
	// +kubebuilder:validation:Enum="True";"False";Unknown
	// +optional
	Status corev1.ConditionStatus `json:"status,omitempty"`
	// reason is a word such as DockerHung. Default NodeDisruption.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="condition.reason: want a word such as DockerHung"
	Reason string `json:"reason,omitempty"`
	// message is for people. The hollow node appends the name of the run, by which it knows the condition again.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}

// APIClient is one of the kubelet's clients of the API server.
//
// +kubebuilder:validation:Enum=Main;Heartbeat;Events
type APIClient string

const (
	// ClientMain does all that the others do not: it follows pods, Services and Secrets and writes the status of pods.
	ClientMain APIClient = "Main"
	// ClientHeartbeat writes the Node's status and its Lease.
	ClientHeartbeat APIClient = "Heartbeat"
	// ClientEvents writes events.
	ClientEvents APIClient = "Events"
)

// APIClients are all clients of a kubelet.
var APIClients = []APIClient{ClientMain, ClientHeartbeat, ClientEvents}

// SlowAPIParameters are those of SlowAPI. A watch that is open continues; one that is opened is delayed.
//
// +kubebuilder:object:generate=true
type SlowAPIParameters struct {
	// latency is added to each request, up to 5m. A heartbeat is given up after 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('5m')",message="slowAPI.latency: must be from 1ms to 5m"
	Latency metav1.Duration `json:"latency"`
	// jitter is up to how much more is added, different for each request, up to 5m. Default 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('5m')",message="slowAPI.jitter: must be from 0s to 5m"
	Jitter metav1.Duration `json:"jitter,omitzero"`
	// clients are whose requests are delayed: Main, Heartbeat and Events. Default all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	// +optional
	Clients []APIClient `json:"clients,omitempty"`
}

// APIErrorsParameters are those of APIErrors. A watch that is open continues.
//
// +kubebuilder:object:generate=true
type APIErrorsParameters struct {
	// percent is how many of 100 requests fail, 1 to 100. Default 100.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent int32 `json:"percent,omitempty"`
	// statusCode is what they are answered with: 401, 403, 429, or 500 to 599. Default 503.
	// +kubebuilder:validation:Minimum=401
	// +kubebuilder:validation:Maximum=599
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in [401, 403, 429] || self >= 500",message="apiErrors.statusCode: want 401, 403, 429, or 500 to 599"
	StatusCode int32 `json:"statusCode,omitempty"`
	// clients are whose requests fail: Main, Heartbeat and Events. Default all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	// +optional
	Clients []APIClient `json:"clients,omitempty"`
}

// PodStartDelayParameters are those of PodStartDelay.
//
// +kubebuilder:object:generate=true
type PodStartDelayParameters struct {
	// delay is how long each pod waits for its sandbox, up to 1h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="podStartDelay.delay: must be from 1ms to 1h"
	Delay metav1.Duration `json:"delay"`
	// jitter is up to how much longer a pod waits, different for each pod, up to 1h. Default 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,4}h|[0-9]{1,6}m|[0-9]{1,8}([.][0-9]{1,9})?s|[0-9]{1,9}([.][0-9]{1,6})?ms|[0-9]{1,9}([.][0-9]{1,3})?(us|µs)|[0-9]{1,9}ns)+)$`
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="podStartDelay.jitter: must be from 0s to 1h"
	Jitter metav1.Duration `json:"jitter,omitzero"`
}

// PodStartFailParameters are those of PodStartFail.
//
// +kubebuilder:object:generate=true
type PodStartFailParameters struct {
	// percent is how many of 100 pods do not start within the window, 1 to 100; the kubelet's further attempts for them
	// fail as well. Default 100.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent int32 `json:"percent,omitempty"`
}

// DeviceFailureParameters are those of DeviceFailure.
//
// +kubebuilder:object:generate=true
type DeviceFailureParameters struct {
	// name is the resource of the devices that fail, such as example.com/gpu, or their DRA driver, such as gpu.example.com. Default: those of
	// each resource and driver.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",message="deviceFailure.name: want an extended resource such as example.com/gpu, or a DRA driver such as gpu.example.com"
	// +optional
	Name string `json:"name,omitempty"`
	// count is how many of them fail on each Node, 1 to 128; all if there are not so many. Default all.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	// +optional
	Count int32 `json:"count,omitempty"`
	// effect is that of the taint hollowfleet.io/device-failed which a device of a DRA driver has in its ResourceSlice: NoSchedule keeps it
	// from further claims, NoExecute evicts the pods that have it as well. Default NoSchedule. Devices of device plugins have no taints.
	// +kubebuilder:validation:Enum=NoSchedule;NoExecute
	// +optional
	Effect resourcev1.DeviceTaintEffect `json:"effect,omitempty"`
}

// Defaults of parameters that are not set.
const (
	DefaultPercent    = 100
	DefaultStatusCode = 503
	DefaultReason     = "NodeDisruption"
)

// Frozen tells which heartbeats a FreezeHeartbeat stops.
func (f *Fault) Frozen() (lease, status bool) {
	if f.Type != FreezeHeartbeat {
		return false, false
	}
	if f.FreezeHeartbeat == nil {
		return true, true
	}
	return f.FreezeHeartbeat.Heartbeat != HeartbeatStatus, f.FreezeHeartbeat.Heartbeat != HeartbeatLease
}

// Concerns reports whether requests of a client are delayed.
func (p *SlowAPIParameters) Concerns(client APIClient) bool {
	return len(p.Clients) == 0 || slices.Contains(p.Clients, client)
}

// Concerns reports whether requests of a client may fail. Without parameters, those of all clients do.
func (p *APIErrorsParameters) Concerns(client APIClient) bool {
	return p == nil || len(p.Clients) == 0 || slices.Contains(p.Clients, client)
}

// MayTurnNotReady reports whether the fault lets the Node's condition Ready be something else than True when its windows last
// long enough: what is to be counted against maxUnavailable and for Thresholds. A FreezeHeartbeat of the status alone
// leaves it as it is.
func (f *Fault) MayTurnNotReady() bool {
	switch f.Type {
	case NotReady, Flap, Kill, Reboot, Shutdown, NeverJoin:
		return true
	case FreezeHeartbeat:
		lease, _ := f.Frozen()
		return lease
	case SlowAPI:
		return f.SlowAPI != nil && f.SlowAPI.Concerns(ClientHeartbeat)
	case APIErrors:
		return f.APIErrors.Concerns(ClientHeartbeat)
	case RestartKubelet, Pressure, Condition, PodStartDelay, PodStartFail, DeviceFailure:
	}
	return false
}
