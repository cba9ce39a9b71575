package hollownode

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
	"k8s.io/kubernetes/pkg/kubelet/status"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/rhythm"
	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

// ErrKilled is returned by Run for a node that was killed, by a disruption or by its Options' Kill.
var ErrKilled = errors.New("killed")

// life ends one node of a process whose other nodes live on. A kubelet is made to end with its process: most of its loops
// ignore their context, or have none. So each of them ends at its next step out of the kubelet's own code, which is a request to
// the API server or a question to the container runtime.
type life struct {
	once  sync.Once
	ended chan struct{}
	// loops is closed when the kubelet has started all its loops that ask for wait.NeverStop but the one that reports the Node, and reports
	// when that one has.
	loops, reports         chan struct{}
	loopsOnce, reportsOnce sync.Once
	// syncs is that the sync loop has started: until then nothing waits for the moments at which the nodes of the process work.
	syncs atomic.Bool
	mu    sync.Mutex
	// last is called when the node ends.
	last func()
	// deletions is the channel of the loop that deletes containers, if there is a kubelet.
	deletions reflect.Value
}

func newLife() *life {
	return &life{ended: make(chan struct{}), loops: make(chan struct{}), reports: make(chan struct{})}
}

// endNode lets the node write nothing more from now on.
func (l *life) endNode() {
	l.once.Do(func() {
		close(l.ended)
		l.mu.Lock()
		last := l.last
		l.mu.Unlock()
		if last != nil {
			last()
		}
		if l.deletions.IsValid() {
			// Its loop waits for containers forever. It gets one more, and asks the runtime of it.
			l.deletions.TrySend(reflect.ValueOf(kubecontainer.ContainerID{}))
		}
	})
}

// atEnd has last called when the node ends, also if it has ended. It may be called twice.
func (l *life) atEnd(last func()) {
	l.mu.Lock()
	l.last = last
	l.mu.Unlock()
	if l.hasEnded() {
		last()
	}
}

func (l *life) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// errEnded is what a node that has ended gets where its goroutine cannot be ended.
var errEnded = errors.New("the node has ended")

// endGoroutine ends the goroutine that calls it if the node has ended. What it deferred is done. Where that would be fatal it returns errEnded.
func (l *life) endGoroutine() error {
	if !l.hasEnded() {
		return nil
	}
	if isBetweenLocks() {
		return errEnded
	}
	runtime.Goexit()
	return nil
}

// runNode runs a node in a goroutine of its own, and returns ErrKilled if that ends because the node has ended: the kubelet's code, which
// builds the kubelet there, can be where it takes its next step out.
func (l *life) runNode(run func() error) error {
	ended := make(chan error, 1)
	go func() {
		err := ErrKilled
		defer func() { ended <- err }()
		err = run()
	}()
	return <-ended
}

// isBetweenLocks reports whether the goroutine runs what a kubelet does after it has unlocked a mutex that it has deferred to unlock: its
// last try to report a Node that has just become ready. It is the only such place in what a hollow kubelet runs.
func isBetweenLocks() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	reports := false
	for {
		frame, more := frames.Next()
		switch {
		case strings.HasSuffix(frame.Function, ".syncNodeStatus"):
			reports = true
		case reports && strings.HasSuffix(frame.Function, ".fastNodeStatusUpdate"):
			return true
		}
		if !more {
			return false
		}
	}
}

// guardRequests returns a transport over which a node that has ended sends nothing.
func (l *life) guardRequests(next http.RoundTripper) http.RoundTripper {
	return guardedTransport{RoundTripper: next, life: l}
}

type guardedTransport struct {
	http.RoundTripper
	life *life
}

// RoundTrip sends one request.
func (t guardedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.life.endGoroutine(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	return t.RoundTripper.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the connections of the transport.
func (t guardedTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// guardLoops lets the loops of a kubelet end that ask neither the API server nor the runtime, and notices when all have started.
func (n *node) guardLoops(k *kubelet.Kubelet) error {
	generator, generatorErr := getField[pleg.PodLifecycleEventGenerator](k, eventGenerator)
	pods, podsErr := getField[status.PodManager](k, statusPods)
	if err := errors.Join(generatorErr, podsErr); err != nil {
		return err
	}
	deletions, err := deletedContainers.fieldOf(k)
	if err != nil {
		return err
	}
	n.life.deletions = deletions
	return errors.Join(
		setField(k, eventClock, clock.Clock(rhythm.Clock{Clock: clock.RealClock{}})), // Before the generator has another type.
		setField(k, eventGenerator, pleg.PodLifecycleEventGenerator(minor.Generator{PodLifecycleEventGenerator: generator, BeforeSync: n.life.beforeSync})),
		setField(k, statusPods, status.PodManager(guardedPods{pods, n.life})),
		addHealthCheck(k, n.life),
		addStatusSetter(k, func(context.Context, *corev1.Node) error {
			n.life.reportsOnce.Do(func() { close(n.life.reports) })
			return n.life.endGoroutine()
		}),
	)
}

// addHealthCheck adds a check that the kubelet makes before each round of its sync loop and of what reports its Node.
func addHealthCheck(k *kubelet.Kubelet, l *life) error {
	checks, err := healthChecks.fieldOf(k)
	if err != nil {
		return err
	}
	check := reflect.New(checks.Type().Elem().Elem())
	function, err := healthCheckFunction.fieldOf(check.Interface())
	if err != nil {
		return err
	}
	function.Set(reflect.ValueOf(func() (bool, error) {
		err := l.endGoroutine()
		return err == nil, err
	}).Convert(function.Type()))
	checks.Set(reflect.Append(checks, check))
	return nil
}

// loopPeriod divides the periods of the kubelet's loops.
const loopPeriod = time.Second

// beforeSync is called when all loops of the kubelet run but the sync loop, whose tickers start after it: at a moment at which those of the
// other nodes of the process tick.
func (l *life) beforeSync() {
	l.loopsOnce.Do(func() { close(l.loops) })
	select {
	case <-time.After(rhythm.Until(time.Now(), loopPeriod)):
	case <-l.ended:
	}
	l.syncs.Store(true)
}

// guardedPods are the pods of a node that may end, for the loop that writes their statuses.
type guardedPods struct {
	status.PodManager
	life *life
}

// GetUIDTranslations is asked in each round.
func (p guardedPods) GetUIDTranslations() (podToMirror map[kubetypes.ResolvedPodUID]kubetypes.MirrorPodUID, mirrorToPod map[kubetypes.MirrorPodUID]kubetypes.ResolvedPodUID) {
	_ = p.life.endGoroutine() // Its loop can be ended.
	return p.PodManager.GetUIDTranslations()
}

// guardedRuntime is the container runtime of a node that may end. Of all questions these are asked again and again, or by a loop that
// does nothing else.
type guardedRuntime struct {
	internalapi.RuntimeService
	life *life
}

// RunPodSandbox is refused to a kubelet that has ended: another one may have the runtime by then.
func (r guardedRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if r.life.hasEnded() {
		return "", errEnded
	}
	return r.RuntimeService.RunPodSandbox(ctx, config, handler)
}

// CreateContainer is refused like RunPodSandbox.
func (r guardedRuntime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	if r.life.hasEnded() {
		return "", errEnded
	}
	return r.RuntimeService.CreateContainer(ctx, sandbox, config, pod)
}

// ListPodSandbox is asked by the loops that relist and clean up.
func (r guardedRuntime) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if err := r.life.endGoroutine(); err != nil {
		return nil, err
	}
	return r.RuntimeService.ListPodSandbox(ctx, filter)
}

// ListContainers is asked by the loops that relist and clean up.
func (r guardedRuntime) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if err := r.life.endGoroutine(); err != nil {
		return nil, err
	}
	return r.RuntimeService.ListContainers(ctx, filter)
}

// Status is asked by the loop that finds out whether the runtime is up.
func (r guardedRuntime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	if err := r.life.endGoroutine(); err != nil {
		return nil, err
	}
	if r.life.syncs.Load() {
		rhythm.Await(ctx, loopPeriod)
	}
	return r.RuntimeService.Status(ctx, verbose)
}

// ContainerStatus is asked by the loop that deletes containers.
func (r guardedRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	if err := r.life.endGoroutine(); err != nil {
		return nil, err
	}
	return r.RuntimeService.ContainerStatus(ctx, id, verbose)
}
