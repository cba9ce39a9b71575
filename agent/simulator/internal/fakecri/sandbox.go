package fakecri

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is one pod's environment.
type sandbox struct {
	// listed is what ListPodSandbox answers; it is replaced, never changed, because callers keep it.
	listed    *runtimeapi.PodSandbox
	namespace *runtimeapi.NamespaceOption
	addresses []netip.Addr
	lifetime  lifetime
	script    script
	uses      curves
	log       logScript
	// logDirectory is where containers have their logs.
	logDirectory string
}

// RunPodSandbox creates a sandbox that is ready at once, unless the gate disturbs the start of pods. Unless the pod uses the
// host's network it gets an address of the node's pod CIDR.
func (r *Runtime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if err := checkSandboxConfig(config); err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	life, err := lifetimeOf(config.GetAnnotations())
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	said, err := scriptOf(config.GetAnnotations())
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	uses, usesErr := curvesOf(config.GetAnnotations())
	log, logErr := logScriptOf(config.GetAnnotations())
	if err := errors.Join(usesErr, logErr); err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	if err := r.awaitPodStart(ctx, config.GetMetadata()); err != nil {
		return "", err
	}
	options := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	hostNetwork := options.GetNetwork() == runtimeapi.NamespaceMode_NODE
	if !hostNetwork && !r.haveRanges() {
		return "", status.Error(codes.Unavailable, "networkConfig.podCidr: the node has no pod CIDR yet")
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	made := &sandbox{namespace: options, lifetime: life, script: said, uses: uses, log: log, logDirectory: config.GetLogDirectory()}
	made.listed = &runtimeapi.PodSandbox{
		Id:             newID(),
		Metadata:       config.GetMetadata(),
		State:          runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt:      r.options.Clock.Now().UnixNano(),
		Labels:         config.GetLabels(),
		Annotations:    config.GetAnnotations(),
		RuntimeHandler: handler,
	}
	if !hostNetwork {
		if made.addresses, err = r.addresses.allocateAddresses(); err != nil {
			return "", status.Errorf(codes.ResourceExhausted, "address of pod %s/%s: %v",
				config.GetMetadata().GetNamespace(), config.GetMetadata().GetName(), err)
		}
	}
	r.sandboxes[made.listed.Id] = made
	return made.listed.Id, nil
}

func checkSandboxConfig(config *runtimeapi.PodSandboxConfig) error {
	metadata := config.GetMetadata()
	if metadata == nil {
		return errors.New("config.metadata: required")
	}
	for field, value := range map[string]string{
		"name": metadata.GetName(), "namespace": metadata.GetNamespace(), "uid": metadata.GetUid(),
	} {
		if value == "" {
			return fmt.Errorf("config.metadata.%s: required", field)
		}
	}
	return nil
}

// StopPodSandbox stops the sandbox and its containers. Stopping what is gone is no error.
func (r *Runtime) StopPodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.sandboxes[id]
	if !ok {
		return nil
	}
	for _, c := range r.containers {
		if c.listed.PodSandboxId == id {
			r.stopContainer(c)
		}
	}
	stopped := sandboxCopy(found.listed)
	stopped.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	found.listed = stopped
	return nil
}

// RemovePodSandbox forgets the sandbox and its containers and frees its addresses.
func (r *Runtime) RemovePodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.sandboxes[id]
	if !ok {
		return nil
	}
	for _, c := range r.containers {
		if c.listed.PodSandboxId == id {
			r.forgetContainer(c)
		}
	}
	r.addresses.releaseAddresses(found.addresses)
	delete(r.sandboxes, id)
	return nil
}

// PodSandboxStatus describes one sandbox with its addresses.
func (r *Runtime) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.sandboxes[id]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "sandbox %q not found", id)
	}
	network := &runtimeapi.PodSandboxNetworkStatus{}
	for i, address := range found.addresses {
		if i == 0 {
			network.Ip = address.String()
			continue
		}
		network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: address.String()})
	}
	listed := found.listed
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id:             listed.Id,
		Metadata:       listed.Metadata,
		State:          listed.State,
		CreatedAt:      listed.CreatedAt,
		Network:        network,
		Linux:          &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: found.namespace}},
		Labels:         listed.Labels,
		Annotations:    listed.Annotations,
		RuntimeHandler: listed.RuntimeHandler,
	}}, nil
}

// ListPodSandbox lists the sandboxes that pass the filter.
func (r *Runtime) ListPodSandbox(_ context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sandboxes) == 0 {
		return nil, nil
	}
	listed := make([]*runtimeapi.PodSandbox, 0, len(r.sandboxes))
	for id, s := range r.sandboxes {
		if filter.GetId() != "" && filter.GetId() != id {
			continue
		}
		if filter.GetState() != nil && filter.GetState().State != s.listed.State {
			continue
		}
		if matchLabels(s.listed.Labels, filter.GetLabelSelector()) {
			listed = append(listed, s.listed)
		}
	}
	return listed, nil
}

// UpdatePodSandboxResources accepts every change: there is nothing to limit.
func (r *Runtime) UpdatePodSandboxResources(context.Context, *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

func sandboxCopy(s *runtimeapi.PodSandbox) *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{
		Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt,
		Labels: s.Labels, Annotations: s.Annotations, RuntimeHandler: s.RuntimeHandler,
	}
}
