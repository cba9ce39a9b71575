// Package plane runs the components of control planes as functions, so that several clusters share one process.
//
// Each file runs one component: etcd.go, apiserver.go, controllermanager.go, scheduler.go and podhost.go. What the clusters of a process
// cannot have for themselves is set once, in process.go; whatever makes a plane smaller (shared OpenAPI and routes, etcd without
// a connection, feature gates) belongs beside the component that it changes.
package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// exitPatience is how long to wait for a component to end after one of its goroutines wanted to exit the process.
const exitPatience = 10 * time.Second

var (
	// ErrUnknown is wrapped when a component has another name than those.
	ErrUnknown = errors.New("unknown component")
	// errStarting is why a run is not healthy yet.
	errStarting = errors.New("it is starting")
	// errEnded is why a run is not healthy any more.
	errEnded = errors.New("it has ended")
	// ErrNoProcess is wrapped when a component should be suspended, for which it needs a process of its own.
	ErrNoProcess = errors.New("it shares a process with other clusters")
)

// Component is one component of one cluster.
type Component struct {
	// Cluster is the name that logs and traces show.
	Cluster string
	// Name is that of the program, such as kube-apiserver.
	Name string
	// Args is the command line.
	Args []string
	// Log takes what the component says.
	Log io.Writer
}

// function runs a component until the context ends. It calls healthy when the component has started to do its job.
type function func(ctx context.Context, run *Run) error

var functions = map[string]function{
	"etcd":                    runEtcd,
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kube-scheduler":          runScheduler,
	"podhost":                 runPodhost,
}

// Run is one run of a component.
type Run struct {
	component Component
	// label is on all goroutines of this run and no other.
	label    string
	cancel   context.CancelCauseFunc
	done     chan struct{}
	finished sync.Once
	err      error

	mutex sync.Mutex
	// health is how the component finds out whether it does its job.
	health func(ctx context.Context) error
	// sever ends what the component still does for others, so that it need not be waited for.
	sever []func()
	hard  bool
	// release gives back what the next run needs, if this one does not end. It may be nil.
	release func()
}

// Start starts a component. The process must have been set up.
func Start(component Component) (*Run, error) {
	function, ok := functions[component.Name]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, component.Name)
	}
	if err := process.check(); err != nil {
		return nil, err
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(component.Log)))
	ctx, cancel := context.WithCancelCause(klog.NewContext(context.Background(), logger))
	run := &Run{component: component, cancel: cancel, done: make(chan struct{})}
	process.register(run)
	go pprof.Do(ctx, pprof.Labels(labelName, run.label), func(ctx context.Context) {
		defer cancel(nil)
		run.finish(ctx, callFunction(ctx, run, function))
	})
	return run, nil
}

// callFunction returns a panic of the component's first goroutine as an error. One of any other ends the process.
func callFunction(ctx context.Context, run *Run, function function) (err error) {
	exits := true
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(run.component.Log, "panic: %v\n%s\n", problem, debug.Stack())
			err = fmt.Errorf("panic: %v", problem)
		} else if exits {
			run.finish(ctx, errExit)
		}
	}()
	err = function(ctx, run)
	exits = false
	return err
}

// finish ends the run for those who wait for it.
func (r *Run) finish(ctx context.Context, err error) {
	r.finished.Do(func() {
		if cause := context.Cause(ctx); errors.Is(cause, errExit) {
			err = cause
		} else if ctx.Err() != nil {
			err = nil
		}
		if r.err = err; err != nil {
			fmt.Fprintf(r.component.Log, "%s: %v\n", r.component.Name, err)
		}
		process.forget(r)
		close(r.done)
	})
}

func (r *Run) id() string { return r.component.Cluster + "/" + r.component.Name }

// PID is the process that the component shares.
func (r *Run) PID() int { return os.Getpid() }

// Wait blocks until the run has ended.
func (r *Run) Wait() error {
	<-r.done
	return r.err
}

// Signal ends the run as the signal would end a process: in order with SIGTERM, and without waiting for anything with
// SIGKILL. SIGCONT does nothing. The error for any other wraps ErrNoProcess.
func (r *Run) Signal(signal syscall.Signal) error {
	switch signal {
	case syscall.SIGCONT:
	case syscall.SIGTERM:
		r.cancel(nil)
	case syscall.SIGKILL:
		r.severRun()
		r.cancel(nil)
	default:
		return fmt.Errorf("sending %s to %s: %w", signal, r.id(), ErrNoProcess)
	}
	return nil
}

// Healthy returns nil if the component does its job.
func (r *Run) Healthy(ctx context.Context) error {
	select {
	case <-r.done:
		return errEnded
	default:
	}
	r.mutex.Lock()
	health := r.health
	r.mutex.Unlock()
	if health == nil {
		return errStarting
	}
	return health(ctx)
}

// setHealth tells that the component has started, and how to find out whether it does its job.
func (r *Run) setHealth(health func(ctx context.Context) error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.health = health
}

// onSever adds to what ends when the run is killed.
func (r *Run) onSever(end func()) {
	r.mutex.Lock()
	hard := r.hard
	r.sever = append(r.sever, end)
	r.mutex.Unlock()
	if hard {
		end()
	}
}

// onAbandon sets what to do before the run counts as ended although it has not.
func (r *Run) onAbandon(release func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.release = release
}

func (r *Run) releaseRun() {
	r.mutex.Lock()
	release := r.release
	r.mutex.Unlock()
	if release != nil {
		release()
	}
}

func (r *Run) severRun() {
	r.mutex.Lock()
	r.hard = true
	ends := r.sever
	r.mutex.Unlock()
	for _, end := range ends {
		end()
	}
}

// failRun ends the run because one of its goroutines wanted to exit the process. What has not ended after a while stays for as long as
// the process: it may wait for the goroutine that has ended.
func (r *Run) failRun(reason string) {
	cause := fmt.Errorf("%w (%s), see the log of its process", errExit, reason)
	r.cancel(cause)
	r.severRun()
	go func() {
		select {
		case <-r.done:
		case <-time.After(exitPatience):
			fmt.Fprintf(os.Stderr, "%s did not end within %s after it wanted to exit the process, and is abandoned\n", r.label, exitPatience)
			r.releaseRun()
			r.finish(context.Background(), cause)
		}
	}()
}

// exitRun ends the run, and the goroutine that calls it.
func (r *Run) exitRun(reason string) {
	fmt.Fprintf(os.Stderr, "%s wanted to exit the process (%s): it ends alone\n", r.label, reason)
	r.failRun(reason)
	runtime.Goexit()
}

var errExit = errors.New("it wanted to exit the process")
