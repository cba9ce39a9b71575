package kwok

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/backoff"
)

const (
	// restartFirst and restartLongest bound how soon a controller that has ended is started again.
	restartFirst, restartLongest = time.Second, time.Minute
	// steadyAfter is how long a controller has to have run for its next start to come soon again.
	steadyAfter = time.Minute
	// lookInterval is how often the driver looks whether there are Nodes that need the controller.
	lookInterval = 5 * time.Second
)

// controller keeps kwok's controller running as a process, from the first Node on until the driver's context ends.
type controller struct {
	options Options
	target  driver.Access
	log     logr.Logger
	clock   clock.PassiveClock
	// wanted is closed when there is a Node.
	wanted     chan struct{}
	wantedOnce sync.Once
	// ended is closed when runController has returned.
	ended chan struct{}

	// tokenExpiry is that of the token in the directory. Only runController uses it.
	tokenExpiry time.Time

	mu      sync.Mutex
	trouble string
	// pid is that of the process; 0 while there is none.
	pid int
}

func newController(options Options, environment driver.Environment) *controller {
	return &controller{
		options: options, target: environment.Target, log: environment.Log, clock: environment.Clock, wanted: make(chan struct{}),
		ended: make(chan struct{}),
	}
}

// checkProgram says why the program cannot be started, and what to do.
func (c *controller) checkProgram() error {
	info, err := os.Stat(c.options.Program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("kwok's controller is not at %s: build it with make build-kwok, or start the agent with the path of one (--kwok-program)", c.options.Program)
	case err != nil:
		return fmt.Errorf("looking for kwok's controller: %w: correct the agent's option --kwok-program", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not a program that can be run: correct the agent's option --kwok-program", c.options.Program)
	}
	return nil
}

// requireRunning starts the controller if it does not run yet.
func (c *controller) requireRunning() { c.wantedOnce.Do(func() { close(c.wanted) }) }

// describeProblem says why the controller does not run; empty if it does, or has not been needed yet.
func (c *controller) describeProblem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

func (c *controller) processID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

func (c *controller) setState(pid int, trouble string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid, c.trouble = pid, trouble
}

// runController returns when ctx has ended and the process with it.
func (c *controller) runController(ctx context.Context) {
	defer close(c.ended)
	if !c.awaitNode(ctx) {
		return
	}
	for failures := 0; ctx.Err() == nil; {
		started := time.Now()
		err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if failures++; time.Since(started) >= steadyAfter {
			failures = 1
		}
		delay := backoff.Delay(failures, restartFirst, restartLongest)
		c.setState(0, fmt.Sprintf("%v; the agent tries again within %s", err, delay))
		c.log.Info("Waiting to start kwok's controller again", "after", delay, "reason", err.Error())
		waitFor(ctx, delay)
	}
}

// awaitNode waits until the controller is needed. An agent that starts finds Nodes that an earlier one has made.
func (c *controller) awaitNode(ctx context.Context) bool {
	for {
		nodes := &metav1.PartialObjectMetadataList{}
		nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		err := c.target.Reader.List(ctx, nodes, client.MatchingLabels{v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue}, client.Limit(1))
		if err == nil && len(nodes.Items) > 0 {
			return true
		}
		if err == nil {
			// From here on each Node comes from this driver.
			select {
			case <-c.wanted:
				return true
			case <-ctx.Done():
				return false
			}
		}
		if !waitFor(ctx, lookInterval) {
			return false
		}
	}
}

// waitFor returns false if ctx ends earlier.
func waitFor(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// runOnce starts the process and returns when it has ended.
func (c *controller) runOnce(ctx context.Context) error {
	if err := c.checkProgram(); err != nil {
		return err
	}
	files, err := c.writeFiles(ctx)
	if err != nil {
		return err
	}
	log := &boundedLog{path: filepath.Join(c.options.Dir, logFile)}
	defer log.Close()
	process, err := startProcess(c.options.Program, c.renderArguments(files), c.options.Dir, log)
	if err != nil {
		return err
	}
	c.log.Info("Started kwok's controller", "program", c.options.Program, "pid", process.processID(), "log", log.path)
	c.setState(process.processID(), "")
	defer c.setState(0, "")
	for renewAfter := c.renewAfter(); ; {
		renewal := time.NewTimer(renewAfter)
		select {
		case <-ctx.Done():
			renewal.Stop()
			return process.stopProcess()
		case <-process.done:
			renewal.Stop()
			return fmt.Errorf("kwok's controller has ended (%w): its log is %s", exitError(process.err), log.path)
		case <-renewal.C:
			if err := c.writeToken(ctx); err != nil {
				c.log.Info("Keeping the token of kwok's controller for now", "reason", err.Error())
			}
			renewAfter = c.renewAfter()
		}
	}
}

// exitError is why a process has ended.
func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// renderArguments returns those of kwok's controller. It serves nothing, and acts on the driver's own Nodes alone.
func (c *controller) renderArguments(files controllerFiles) []string {
	return []string{
		"--kubeconfig=" + files.kubeconfig, "--config=" + files.configuration, "--v=WARN",
		"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=",
		"--manage-nodes-with-label-selector=" + v1alpha1.HollowNodeLabel + "=" + v1alpha1.KwokNodeLabelValue,
		fmt.Sprintf("--node-lease-duration-seconds=%d", leaseSeconds(c.options)),
		"--cidr=" + podCIDR, "--server-address=", "--node-port=0", "--node-ip=", "--node-name=",
	}
}

func leaseSeconds(options Options) int {
	if options.LeaseDuration == 0 {
		return int(DefaultLeaseDuration / time.Second)
	}
	return int(options.LeaseDuration / time.Second)
}
