// Package driver is the contract between the agent and a provider: the code that turns a Machine into
// something that runs a kubelet. The provider "hollow" is in driver/hollow; driver/fake is one for tests.
//
// # Writing a provider
//
// Implement Driver, write a Factory for it and put that into agent.Options.Drivers under the provider's name.
// Run the suite of package drivertest against it. The rules that the suite cannot see:
//
//   - One instance per Machine, found again by the Machine's name alone: keep no state that a restart of the
//     agent would lose. A Driver is called by several goroutines at once, but by one at a time for a Machine.
//   - Every call returns soon and honours its context. What takes longer continues behind the call; Get tells
//     how far it is, and Environment.Changed asks the agent to look.
//   - Make every change through the clients of Environment. They refuse with a freeze error while the agent
//     is frozen; hand such an error up as it is, wrapped at most.
//   - Never remove anything because no Machine for it is known. The agent says what to delete.
package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Driver makes, changes and removes the instances of a provider. Each call may be repeated at any time and
// then changes nothing more. Errors are those of errors.go, or any other error, which is retried with back-off.
type Driver interface {
	// Create makes the instance of a Machine and returns it; one that exists already is returned as it is. It
	// returns *InvalidConfigurationError before anything is made, and *ExhaustedError when there is no room.
	Create(ctx context.Context, request Request) (Instance, error)
	// CheckUpdate says whether Update can bring the instance to the configuration of request while the Node
	// stays. The agent asks before it drains anything. It changes nothing and returns nil,
	// *InPlaceUnsupportedError or *InvalidConfigurationError.
	CheckUpdate(ctx context.Context, request Request) error
	// Update brings an instance to the configuration of request, in place or by replacing it; name and
	// provider ID stay, so that the kubelet continues with the same Node. It may take the instance away and leave
	// it to the next Create to make the new one: it is then Deleting, and later gone. It returns *NotFoundError
	// when there is no instance, and *InPlaceUnsupportedError, with nothing changed, when CheckUpdate would.
	Update(ctx context.Context, request Request) (Instance, error)
	// Get returns the instance of a Machine, or *NotFoundError, which must be certain and not taken from a
	// cache alone. With a request that has no Class it does not judge UpToDate, which is then true.
	Get(ctx context.Context, request Request) (Instance, error)
	// Delete starts to remove the instance of machine and all that was made for it. No instance is no error.
	// It is done when Get returns *NotFoundError.
	Delete(ctx context.Context, machine *v1alpha1.Machine) error
	// List returns all instances that this driver made for the cluster, also those without a Machine. Like Get, it is
	// certain and not taken from a cache alone: by it the agent knows whether there is anything to lose.
	List(ctx context.Context) ([]Instance, error)
}

// Request is a Machine and how to make it.
type Request struct {
	// Machine is a private copy. Its name is unique in the cluster and the name that its Node must have.
	Machine *v1alpha1.Machine
	// Class is nil when it is unknown: the Machine is being deleted, or its MachineClass is missing.
	Class *Class
	// CreationTimeout is how long the Machine may take until its Node is Ready, by itself, its MachineClass or default.
	// A driver refuses a configuration that cannot be done by then. 0 when it is unknown, as Class.
	CreationTimeout time.Duration
}

// Class is the provider configuration of a Machine, from its MachineClass or from its own spec.
type Class struct {
	// Path is where Config stands, for messages: "spec.providerConfig" of a MachineClass or
	// "spec.providerConfig.value" of a Machine.
	Path string
	// Config is the provider's own configuration; nil means the provider's defaults.
	Config *runtime.RawExtension
	// SecretName names the Secret of the MachineClass in the cluster's namespace on the hub. Empty if it has none.
	// The agent may read no Secret there: a driver that needs it brings access of its own, and says with
	// ErrInvalidConfiguration that it may not read it.
	SecretName string
	// NodeTemplate is the MachineClass's; nil if it has none.
	NodeTemplate *v1alpha1.NodeTemplate
}

// State is how far an instance is.
type State string

// Counter is what a Driver may be too, to be asked every few seconds how many instances there are. The agent takes 0 for
// proof that there is nothing to lose, so a Counter has asked its provider itself before it returns that.
type Counter interface {
	// Count returns the number of instances that are not being removed.
	Count(ctx context.Context) (int, error)
}

// Configurable is what a Driver may be too, which makes its instances with the KubeletConfiguration of their Machine's
// spec.configSource. The agent refuses the field to any other.
type Configurable interface {
	TakesKubeletConfiguration() bool
}

// TakesKubeletConfiguration reports whether a Driver is Configurable.
func TakesKubeletConfiguration(of Driver) bool {
	configurable, ok := of.(Configurable)
	return ok && configurable.TakesKubeletConfiguration()
}

// Count returns the number of instances of a Driver that are not being removed.
func Count(ctx context.Context, of Driver) (int, error) {
	if counter, ok := of.(Counter); ok {
		return counter.Count(ctx)
	}
	instances, err := of.List(ctx)
	if err != nil {
		return 0, err
	}
	count := 0
	for _, instance := range instances {
		if instance.State != Deleting {
			count++
		}
	}
	return count, nil
}

// The states of an instance.
const (
	// Pending: it is being made or started.
	Pending State = "Pending"
	// Running: it runs, and the kubelet in it is well as far as the provider can tell.
	Running State = "Running"
	// Failing: it does not run, keeps trying by itself, and a person should know.
	Failing State = "Failing"
	// Failed: it is over and will not run again. The agent deletes it and creates another.
	Failed State = "Failed"
	// Deleting: it is being removed.
	Deleting State = "Deleting"
)

// Instance is what a provider made for a Machine.
type Instance struct {
	// Name of the Machine.
	Name string
	// ProviderID is what the Node's spec.providerID will be. Never empty, and never taken from the Machine's
	// spec.providerID, which users can write: it proves to the agent that a Node is the Machine's.
	ProviderID string
	// State and, for people, what there is to say about it.
	State   State
	Message string
	// UpToDate is false when the instance was made from another configuration: the agent calls Update.
	UpToDate bool
	// Taints are what the provider itself puts on the Node, beside the Machine's spec.taints. UnwantedTaints are those that it
	// takes away, if the agent or the kubelet's registration put them there. It leaves any other as it is.
	Taints, UnwantedTaints []corev1.Taint
	// KubeletConfiguration is the hash of the KubeletConfiguration that the instance was made with, as v1alpha1.ContentHash makes it; empty
	// without one. IgnoredFields are the fields of the one that the Machine asks for which change nothing on its node.
	KubeletConfiguration string
	IgnoredFields        []string
	// RecheckAfter asks for another Get after this time, 0 for none.
	RecheckAfter time.Duration
}

// Factory makes the Driver of one agent.
type Factory func(ctx context.Context, environment Environment) (Driver, error)

// Environment is what a provider may use of its agent.
type Environment struct {
	// ClusterName is the cluster's name on the hub.
	ClusterName string
	// Target is the cluster whose Nodes are made; Host is the one whose pods may carry them. Both may be the
	// same cluster.
	Target, Host Access
	// Changed asks the agent to look at a Machine, by name. It never blocks.
	Changed func(machine string)
	// DisruptionPlan returns the plan of node disruptions with which the instance of a Machine is to be made, as package
	// disrupt encodes it; empty for none. A provider that can carry plans out asks right before it makes an instance. Nil if
	// there are no disruptions.
	DisruptionPlan func(ctx context.Context, machine *v1alpha1.Machine) (string, error)
	// Clock is where the time comes from.
	Clock clock.PassiveClock
	// Log is for operators.
	Log logr.Logger
}

// Access is a way into a Kubernetes cluster.
type Access struct {
	// Client reads what the agent caches from the cache (its pods on the host, hollow Nodes and kubelet
	// client CSRs on the target) and all else from the API server. Its writes fail while the agent is frozen.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Informers give access to the agent's cache, to be told of changes.
	Informers cache.Informers
	// Namespace is the agent's own in that cluster.
	Namespace string
}

// The kinds of errors that callers ask for with errors.Is. errors.As with the types below gives the details, and is the
// only way to ask for RetryableError and ExhaustedError: their callers need to know how long to wait.
var (
	// ErrNotFound: there is no instance.
	ErrNotFound = errors.New("instance not found")
	// ErrInvalidConfiguration: the user has to change the Machine or its MachineClass. Nothing is retried.
	ErrInvalidConfiguration = errors.New("invalid configuration")
	// ErrInPlaceUnsupported: the provider cannot change this instance. The Machine has to be replaced.
	ErrInPlaceUnsupported = errors.New("update in place unsupported")
)

// NotFoundError says that a Machine has no instance.
type NotFoundError struct {
	// Machine is its name.
	Machine string
	// ProviderID is what the instance had or would have; empty if that is unknown without one. By it, and by its own
	// annotations, the agent recognizes the Node that an instance has left behind.
	ProviderID string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no instance of machine %q", e.Machine) }

// Is makes errors.Is(err, ErrNotFound) hold.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// InvalidConfigurationError says which field cannot be used as it is.
type InvalidConfigurationError struct {
	// Field is the path of the field from the object that the user wrote, such as
	// "providerConfig.capacity.cpu" or "spec.versions.controlPlane".
	Field string
	// Problem says what is wrong and how to put it right.
	Problem string
}

func (e *InvalidConfigurationError) Error() string { return e.Field + ": " + e.Problem }

// Is makes errors.Is(err, ErrInvalidConfiguration) hold.
func (e *InvalidConfigurationError) Is(target error) bool { return target == ErrInvalidConfiguration }

// RetryableError says when to try again.
type RetryableError struct {
	// After is how long to wait. 0 means the agent's own back-off.
	After time.Duration
	// Err is the cause.
	Err error
}

func (e *RetryableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryableError) Unwrap() error { return e.Err }

// ExhaustedError says that the provider has no room: a quota or a capacity is used up.
type ExhaustedError struct {
	// Resource is what there is not enough of.
	Resource string
	// After is how long to wait before the next attempt. 0 means a minute.
	After time.Duration
}

func (e *ExhaustedError) Error() string { return "no more " + e.Resource + " at the provider" }

// InPlaceUnsupportedError says that an instance cannot be brought to another configuration while its Node stays.
type InPlaceUnsupportedError struct {
	// Problem says what cannot be changed in place.
	Problem string
}

func (e *InPlaceUnsupportedError) Error() string { return "cannot update in place: " + e.Problem }

// Is makes errors.Is(err, ErrInPlaceUnsupported) hold.
func (e *InPlaceUnsupportedError) Is(target error) bool { return target == ErrInPlaceUnsupported }

// NameConflictError says that an object of the name that a Machine's instance needs is there and is not the agent's.
type NameConflictError struct {
	// Problem names the object and what to do.
	Problem string
	// Foreign: no agent has made the object. There is nothing of the Machine behind it that could be removed.
	Foreign bool
}

func (e *NameConflictError) Error() string { return e.Problem }

// Invalid returns an *InvalidConfigurationError.
func Invalid(field, format string, args ...any) error {
	return &InvalidConfigurationError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
