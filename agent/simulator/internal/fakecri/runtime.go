package fakecri

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"sync"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

// kubeletAPIVersion is the only version that the kubelet's runtime manager accepts; it is not the version
// of the CRI.
const kubeletAPIVersion = "0.1.0"

// Options describe a runtime.
type Options struct {
	// Name and Version are what the Node reports as "<name>://<version>". The version must start with
	// numbers parted by dots, or the kubelet refuses it.
	Name, Version string
	// FallbackPodCIDR is used when the cluster gives its nodes no pod CIDR. Without it sandboxes that want
	// an address fail until a CIDR comes.
	FallbackPodCIDR netip.Prefix
	// PodCIDRGrace is how long the network counts as not ready while it waits for the node's pod CIDR,
	// before the fallback is used.
	PodCIDRGrace time.Duration
	// RoleOf tells what a container is for, which the CRI does not say. Nil means that every container
	// is a main container.
	RoleOf func(namespace, pod, container string) Role
	// RequestsOf tells what a container requests, which the CRI does not say of memory. Nil means that nothing does.
	RequestsOf func(namespace, pod, container string) Requests
	// TerminationPercent is how much of its grace period a container takes to end, 0 to 100. With 0 it ends at once, with
	// 100 it is killed at the end.
	TerminationPercent int32
	// Clock defaults to the real one.
	Clock clock.Clock
}

// Runtime is the runtime service. Its methods may be called concurrently.
type Runtime struct {
	minor.NoCheckpoints
	options Options
	gate    Gate
	started time.Time

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	addresses  addressPool
	// removedCPU is what containers have used that are removed, in core seconds.
	removedCPU float64
}

var _ internalapi.RuntimeService = &Runtime{}

// New returns a runtime without pods.
func New(options Options) *Runtime {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.RoleOf == nil {
		options.RoleOf = func(string, string, string) Role { return MainContainer }
	}
	if options.RequestsOf == nil {
		options.RequestsOf = func(string, string, string) Requests { return Requests{} }
	}
	return &Runtime{
		options:    options,
		started:    options.Clock.Now(),
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
	}
}

// Gate is where failures of the runtime are scripted.
func (r *Runtime) Gate() *Gate { return &r.gate }

// Version names the runtime.
func (r *Runtime) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version:           kubeletAPIVersion,
		RuntimeName:       r.options.Name,
		RuntimeVersion:    r.options.Version,
		RuntimeApiVersion: "v1",
	}, nil
}

// Status reports the two conditions that make up the kubelet's idea of a ready runtime.
func (r *Runtime) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	network := r.gate.runtimeCondition(runtimeapi.NetworkReady)
	if network.Status && !r.haveRanges() {
		network.Status = false
		network.Reason, network.Message = "NetworkPluginNotReady", "waiting for the node's pod CIDR"
	}
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{
			Conditions: []*runtimeapi.RuntimeCondition{r.gate.runtimeCondition(runtimeapi.RuntimeReady), network},
		},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{
			Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true},
		}},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}, nil
}

// haveRanges reports whether pods can get addresses, and turns to the fallback when its time has come.
func (r *Runtime) haveRanges() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.addresses.ranges) == 0 && r.options.FallbackPodCIDR.IsValid() &&
		r.options.Clock.Since(r.started) >= r.options.PodCIDRGrace {
		r.addresses.setRanges([]netip.Prefix{r.options.FallbackPodCIDR})
	}
	return len(r.addresses.ranges) > 0
}

// UpdateRuntimeConfig takes the node's pod CIDR; new sandboxes get their addresses from it.
func (r *Runtime) UpdateRuntimeConfig(_ context.Context, config *runtimeapi.RuntimeConfig) error {
	cidrs := config.GetNetworkConfig().GetPodCidr()
	if cidrs == "" {
		return nil
	}
	prefixes, err := parsePrefixes(cidrs)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addresses.setRanges(prefixes)
	return nil
}

// RuntimeConfig says nothing of cgroups, as there are none.
func (r *Runtime) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{}, nil
}

// Close does nothing: there is no connection.
func (r *Runtime) Close(context.Context) error { return nil }

// newID returns an identifier of the length that real runtimes use.
func newID() string {
	var id [32]byte
	_, _ = rand.Read(id[:]) // documented to never fail
	return hex.EncodeToString(id[:])
}

func matchLabels(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}
