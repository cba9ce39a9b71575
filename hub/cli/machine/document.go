package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
)

// Document is what "kubectl hollow machine get -o json" prints.
type Document struct {
	// apiVersion is "cli.hollowfleet.io/v1".
	APIVersion string `json:"apiVersion"`
	// kind is "MachineStory".
	Kind string `json:"kind"`
	// time is when the Machine was looked at.
	Time metav1.Time `json:"time"`
	// state is Healthy, Problem, InProgress, Waiting or Paused, as "kubectl hollow status" judges it.
	State health.State `json:"state"`
	// reason and message say why the Machine is not healthy, and since when that holds. next is the command that helps. Absent if healthy.
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	Next    string       `json:"next,omitempty"`
	// machine is the Machine, without managed fields.
	Machine *v1alpha1.Machine `json:"machine"`
	// provider of the Machine; absent if its MachineClass is not known.
	Provider string `json:"provider,omitempty"`
	// class is the MachineClass; absent if the Machine names none.
	Class *Related `json:"class,omitempty"`
	// cluster is the Cluster of the Machine.
	Cluster *Related `json:"cluster"`
	// owners are the MachineSet of the Machine and its MachineDeployment.
	Owners []Related `json:"owners,omitempty"`
	// pod is where the Machine's node runs; absent for other providers than hollow.
	Pod *Pod `json:"pod,omitempty"`
	// events are the newest of the Machine, and the warnings of its owners, in the order of time.
	Events []Event `json:"events"`
	// log is the end of the node's log; absent with --tail 0, and for a provider without logs.
	Log *Log `json:"log,omitempty"`
	// stale says why this is the last known state, such as that the hub does not work.
	Stale []string `json:"stale,omitempty"`
	// left says what could not be read.
	Left []string `json:"left,omitempty"`
}

// Log is the end of the log of a Machine's node.
type Log struct {
	// pod whose log it is, as namespace/name.
	Pod string `json:"pod,omitempty"`
	// lines are the last ones; truncated: not all have room that were asked for.
	Lines     []string `json:"lines,omitempty"`
	Truncated bool     `json:"truncated,omitempty"`
	// problem says why there are none, and command reads them in the cluster where the pod runs.
	Problem string `json:"problem,omitempty"`
	Command string `json:"command,omitempty"`
}

// Related is an object that explains the Machine.
type Related struct {
	// kind and name of the object.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// missing: it does not exist.
	Missing bool `json:"missing,omitempty"`
	// notes are what is to be known of it, such as that it is frozen.
	Notes []string `json:"notes,omitempty"`
}

// Pod is where the node of a Machine runs.
type Pod struct {
	// name of the pod, in the namespace of the agent's --host-namespace.
	Name string `json:"name"`
	// running is the condition PodRunning: True, False or Unknown.
	Running metav1.ConditionStatus `json:"running"`
	// reason and message of that condition.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Event is something that happened.
type Event struct {
	// time is when it happened last.
	Time metav1.Time `json:"time"`
	// object is its kind and name.
	Object string `json:"object"`
	// type is Normal or Warning.
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// count is how often it happened.
	Count int32 `json:"count"`
}
