package fakecri

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one container. It ends by itself when its lifetime is over, or when it was told to; that is worked out
// whenever its state is read, so that only those who wait for its end need a timer.
type container struct {
	// listed is what ListContainers answers; it is replaced, never changed, because callers keep it.
	listed    *runtimeapi.Container
	mounts    []*runtimeapi.Mount
	logPath   string
	resources *runtimeapi.LinuxContainerResources
	lifetime  lifetime
	script    script
	log       logScript
	uses      meters
	// saysMemory: its pod says how much memory it uses.
	saysMemory bool

	startedAt, finishedAt time.Time
	exitCode              int32
	// killedForMemory: it used more memory than it may.
	killedForMemory bool
	// signalledAt is when it was told to end, and terminatesAt when it does so by itself; zero if never.
	signalledAt, terminatesAt time.Time
	// ended is closed when the container ends or is removed; it is nil until a caller waits for that.
	ended chan struct{}
}

// CreateContainer adds a container to a sandbox.
func (r *Runtime) CreateContainer(_ context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	if config.GetMetadata().GetName() == "" {
		return "", status.Error(codes.InvalidArgument, "config.metadata.name: required")
	}
	pod := sandboxConfig.GetMetadata()
	role := r.options.RoleOf(pod.GetNamespace(), pod.GetName(), config.GetMetadata().GetName())
	requests := r.options.RequestsOf(pod.GetNamespace(), pod.GetName(), config.GetMetadata().GetName())

	r.mu.Lock()
	defer r.mu.Unlock()
	parent, ok := r.sandboxes[sandboxID]
	if !ok {
		return "", status.Errorf(codes.NotFound, "podSandboxId: sandbox %q not found", sandboxID)
	}
	image, reference := imageOf(config.GetImage())
	uses, log := parent.uses, parent.log
	if role != MainContainer {
		uses, log = curves{}, nil
	}
	made := &container{
		listed: &runtimeapi.Container{
			Id:           newID(),
			PodSandboxId: sandboxID,
			Metadata:     config.GetMetadata(),
			Image:        image,
			ImageRef:     reference,
			ImageId:      config.GetImage().GetImage(),
			State:        runtimeapi.ContainerState_CONTAINER_CREATED,
			CreatedAt:    r.options.Clock.Now().UnixNano(),
			Labels:       config.GetLabels(),
			Annotations:  config.GetAnnotations(),
		},
		mounts:    config.GetMounts(),
		logPath:   filepath.Join(parent.logDirectory, config.GetLogPath()),
		resources: config.GetLinux().GetResources(),
		log:       log,
		uses:      newMeters(uses, requests),

		saysMemory: uses.memory != nil,

		lifetime: parent.lifetime.lifetimeFor(role),
		script:   parent.script.scriptFor(role),
	}
	r.containers[made.listed.Id] = made
	return made.listed.Id, nil
}

// imageOf returns what a container's status says of its image: the name that the user wrote, and the
// repository with the digest. The kubelet passes the image's ID and the name.
func imageOf(spec *runtimeapi.ImageSpec) (shown *runtimeapi.ImageSpec, reference string) {
	name := spec.GetUserSpecifiedImage()
	if name == "" {
		return spec, spec.GetImage()
	}
	reference = name
	if !strings.Contains(name, "@") {
		reference = repositoryOf(name) + "@" + spec.GetImage()
	}
	return &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: name, RuntimeHandler: spec.GetRuntimeHandler()}, reference
}

// StartContainer starts a created container.
func (r *Runtime) StartContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.findContainer(id)
	if err != nil {
		return err
	}
	if c.listed.State != runtimeapi.ContainerState_CONTAINER_CREATED {
		return status.Errorf(codes.FailedPrecondition, "container %q is in state %s", id, c.listed.State)
	}
	c.startedAt = r.options.Clock.Now()
	c.setState(runtimeapi.ContainerState_CONTAINER_RUNNING)
	return nil
}

// RemoveContainer forgets a container.
func (r *Runtime) RemoveContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.containers[id]; ok {
		r.forgetContainer(c)
	}
	return nil
}

// forgetContainer forgets a container. The caller holds the lock.
func (r *Runtime) forgetContainer(c *container) {
	r.endIfDue(c)
	r.removedCPU += r.usedBy(c, r.options.Clock.Now()).CPUSeconds
	delete(r.containers, c.listed.Id)
	c.wakeWaiters()
}

// ListContainers lists the containers that pass the filter.
func (r *Runtime) ListContainers(_ context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.containers) == 0 {
		return nil, nil
	}
	listed := make([]*runtimeapi.Container, 0, len(r.containers))
	for id, c := range r.containers {
		r.endIfDue(c)
		if filter.GetId() != "" && filter.GetId() != id {
			continue
		}
		if filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.listed.PodSandboxId {
			continue
		}
		if filter.GetState() != nil && filter.GetState().State != c.listed.State {
			continue
		}
		if matchLabels(c.listed.Labels, filter.GetLabelSelector()) {
			listed = append(listed, c.listed)
		}
	}
	return listed, nil
}

// ContainerStatus describes one container.
func (r *Runtime) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.findContainer(id)
	if err != nil {
		return nil, err
	}
	r.endIfDue(c)
	described := &runtimeapi.ContainerStatus{
		Id:          c.listed.Id,
		Metadata:    c.listed.Metadata,
		State:       c.listed.State,
		CreatedAt:   c.listed.CreatedAt,
		Image:       c.listed.Image,
		ImageRef:    c.listed.ImageRef,
		ImageId:     c.listed.ImageId,
		Labels:      c.listed.Labels,
		Annotations: c.listed.Annotations,
		Mounts:      c.mounts,
		LogPath:     c.logPath,
		Resources:   &runtimeapi.ContainerResources{Linux: c.resources},
	}
	if !c.startedAt.IsZero() {
		described.StartedAt = c.startedAt.UnixNano()
	}
	if c.listed.State == runtimeapi.ContainerState_CONTAINER_EXITED {
		described.FinishedAt = c.finishedAt.UnixNano()
		described.ExitCode = c.exitCode
		described.Reason = "Completed"
		if c.exitCode != 0 {
			described.Reason = "Error"
		}
		if c.killedForMemory {
			described.Reason = "OOMKilled"
		}
	}
	return &runtimeapi.ContainerStatusResponse{Status: described}, nil
}

// UpdateContainerResources remembers the new resources, so that an in-place resize is seen to be done.
func (r *Runtime) UpdateContainerResources(_ context.Context, id string, resources *runtimeapi.ContainerResources) error {
	requests := r.requestsOf(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.findContainer(id)
	if err != nil {
		return err
	}
	c.resources = resources.GetLinux()
	c.uses.setRequests(c.runTime(r.options.Clock.Now()), requests)
	return nil
}

// findContainer returns a container. The caller holds the lock.
func (r *Runtime) findContainer(id string) (*container, error) {
	c, ok := r.containers[id]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "container %q not found", id)
	}
	return c, nil
}

// endIfDue ends the container if its time is over. The caller holds the lock.
func (r *Runtime) endIfDue(c *container) {
	if c.listed.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return
	}
	now := r.options.Clock.Now()
	if end, exitCode, ends := c.endTime(); ends && !now.Before(end) {
		c.finishAt(end, exitCode)
		return
	}
	if c.exceedsMemory(now) {
		c.killedForMemory = true
		c.finishAt(now, exitCodeKilled)
	}
}

// exceedsMemory reports whether the container, which runs, uses more memory than its limit. Only one whose pod says what it uses can: all
// others use half of their request.
func (c *container) exceedsMemory(now time.Time) bool {
	limit := c.resources.GetMemoryLimitInBytes()
	return c.saysMemory && limit > 0 && c.uses.memory.At(c.runTime(now)) > float64(limit)
}

// endTime is when and how the container, which runs, ends by itself: when its lifetime is over, or what it was told to has
// taken its time.
func (c *container) endTime() (at time.Time, exitCode int32, ends bool) {
	if c.lifetime.ends {
		at, exitCode, ends = c.startedAt.Add(c.lifetime.after), c.lifetime.exitCode, true
	}
	if !c.terminatesAt.IsZero() && (!ends || c.terminatesAt.Before(at)) {
		at, exitCode, ends = c.terminatesAt, exitCodeStopped, true
	}
	return at, exitCode, ends
}

func (c *container) finishAt(at time.Time, exitCode int32) {
	c.finishedAt, c.exitCode = at, exitCode
	c.setState(runtimeapi.ContainerState_CONTAINER_EXITED)
	c.wakeWaiters()
}

// wakeWaiters tells those who wait for the container's end.
func (c *container) wakeWaiters() {
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
}

func (c *container) setState(state runtimeapi.ContainerState) {
	old := c.listed
	c.listed = &runtimeapi.Container{
		Id: old.Id, PodSandboxId: old.PodSandboxId, Metadata: old.Metadata, Image: old.Image,
		ImageRef: old.ImageRef, ImageId: old.ImageId, State: state, CreatedAt: old.CreatedAt,
		Labels: old.Labels, Annotations: old.Annotations,
	}
}
