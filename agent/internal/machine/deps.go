package machine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
)

// Deps are what a Controller works with. All are required.
type Deps struct {
	Hub    Hub
	Target Target
	// Drivers by provider name, gated.
	Drivers map[string]driver.Driver
	Freeze  Freeze
	// Wake asks for a look at another Machine, by name.
	Wake      func(machine string)
	Reporting Reporting
	Clock     clock.WithTicker
}

// Hub is where the Machines are.
type Hub struct {
	// ClusterName is the agent's cluster, and the name of its namespace on the hub.
	ClusterName string
	// Client reads Machines and MachineClasses of the namespace from the cache. It lets status through while
	// frozen and nothing else.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Refresh reads what the hub says of the cluster now, so that Freeze knows it before anything is removed.
	Refresh func(context.Context) error
}

// Target is where the Nodes are.
type Target struct {
	// Client reads Nodes from the cache; its writes are refused while frozen.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Drain evicts the pods of a Node, gated.
	Drain    Drainer
	Requests Requests
	// Version returns that of the API server, empty while it is not known.
	Version func() string
}

// Freeze is what has to be known of the freeze.
type Freeze struct {
	freeze.Checker
	// Downtime tells how much of a time was frozen.
	freeze.Downtime
	// ThawLimiter limits how many Machines are taken apart after a thaw.
	ThawLimiter
}

// Reporting is where operators are told what happens, beside the status of Machines.
type Reporting struct {
	Recorder events.EventRecorder
	Metrics  *Metrics
	// Tracing, if not nil, makes spans.
	Tracing trace.TracerProvider
}

// Requests are the certificate requests of hollow Nodes.
type Requests interface {
	// Remove removes those that were made for a Node.
	Remove(ctx context.Context, nodeName string) error
	// Nodes returns the names of the nodes that have asked to join.
	Nodes(ctx context.Context) ([]string, error)
}

// ThawLimiter is asked before the first step that takes something from a Machine.
type ThawLimiter interface {
	// Take returns how long that has to wait, and how much of the past the Machine has waited.
	Take(machine types.UID) (wait, waited time.Duration)
	// Created is told of a Machine whose first instance is made now.
	Created(machine types.UID)
	// Forget forgets a Machine that is gone.
	Forget(machine types.UID)
}

// Drainer drains Nodes.
type Drainer interface {
	// Round evicts what can be evicted from a Node now, and returns what is left.
	Round(ctx context.Context, node *corev1.Node) (drain.Round, error)
	// Forget forgets a Node that is drained no more.
	Forget(node string)
}

func (d Deps) checkComplete() error {
	if slices.Contains([]bool{
		d.Hub.ClusterName != "", d.Hub.Client != nil, d.Hub.Reader != nil, d.Hub.Refresh != nil,
		d.Target.Client != nil, d.Target.Reader != nil, d.Target.Drain != nil, d.Target.Requests != nil, d.Target.Version != nil,
		len(d.Drivers) > 0, d.Freeze.Checker != nil, d.Freeze.Downtime != nil, d.Freeze.ThawLimiter != nil,
		d.Wake != nil, d.Reporting.Recorder != nil, d.Reporting.Metrics != nil, d.Clock != nil,
	}, false) {
		return errors.New("machine.Deps: Hub, Target, Drivers, Freeze, Wake, Reporting and Clock are required, with all their fields but Tracing")
	}
	return nil
}

// drivers by provider name.
type drivers map[string]driver.Driver

// providerNames are those of the providers, sorted.
func (d drivers) providerNames() []string { return slices.Sorted(maps.Keys(d)) }
