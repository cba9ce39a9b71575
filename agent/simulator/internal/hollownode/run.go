package hollownode

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/identity"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/rhythm"
)

// settling is how long a kubelet takes to start, on a busy machine.
const settling = 15 * time.Second

// Run is the hollow kubelet of one Node, and returns nil when ctx ends. A process may run several nodes, one after another
// and at the same time, as far as they need the same of it (ErrOtherProcess) and
// none of them needs one of its own (ErrOwnProcess). Of a node whose Run has returned nothing is written
// any more; some memory and some goroutines stay until the process ends.
//
// The Node stays when Run ends. If the Node is deleted before, it is registered again within seconds, unless its configuration wants it to
// be registered once: then when its kubelet starts the next time. If another machine registers
// under the Node's name, Run returns an error, and nothing is written to that machine's Node.
func Run(ctx context.Context, options Options) error {
	configuration, err := options.loadConfiguration()
	if err != nil {
		return err
	}
	if options.StateDir, err = filepath.Abs(options.StateDir); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	if err := options.checkPlace(time.Now()); err != nil {
		return err
	}
	n, err := newNode(configuration, options)
	if err != nil {
		return err
	}
	if options.Started != nil {
		options.Started()
	}
	return n.runKubelets(ctx)
}

func (n *node) run(ctx context.Context) error {
	monitor := &health{gate: n.runtime.Gate()}
	follower, stop, err := n.followPlan(ctx, monitor)
	if err != nil {
		return err
	}
	defer stop()
	joining, cancel := n.untilKilled(ctx)
	defer cancel()
	if !n.bootMachine(joining, n.configuration.StartupDelay.Duration) || !follower.AwaitPresence(joining) {
		return n.unlessEnded(ctx, nil)
	}
	logger := klog.FromContext(ctx)
	logger.Info("Joining", "node", n.configuration.NodeName, "kubelet", kubeletversion.BuiltIn())
	own, err := identity.Join(joining, identity.Options{
		NodeName:            n.configuration.NodeName,
		BootstrapKubeconfig: n.options.bootstrapKubeconfig(),
		Directory:           certificateDir(n.options.StateDir),
		UserAgent:           "hollow-node/" + kubeletversion.BuiltIn(),
	})
	if err != nil {
		return n.unlessEnded(ctx, err)
	}
	if err := n.openPort(); err != nil {
		return err
	}
	defer n.port.closePort()
	k, dependencies, err := n.buildKubelet(ctx, own.Config)
	if err != nil {
		return err
	}
	if err := n.port.serveAPI(ctx, k, own.CA); err != nil {
		return err
	}
	if err := n.turnUnhealthy(follower); err != nil {
		return err
	}
	monitor.useKubelet(k)
	n.startKubelet(ctx, k, dependencies)
	return n.unlessEnded(ctx, n.watchKubelet(ctx, monitor, own))
}

// watchKubelet returns when the node has to end, with the reason for it if it is an error.
func (n *node) watchKubelet(ctx context.Context, monitor *health, own *identity.Identity) error {
	shared.noteStart(time.Now())
	settled := time.After(settling)
	check := time.NewTimer(rhythm.Until(time.Now(), checkPeriod))
	defer check.Stop()
	for {
		select {
		case now := <-settled:
			shared.releaseMemory(now)
		case <-check.C:
			now := time.Now()
			check.Reset(rhythm.Until(now, checkPeriod))
			monitor.checkSyncLoop()
			if err := own.CheckExpiry(now); err != nil {
				return err
			}
		case err := <-n.registration.lost:
			return err
		case <-n.life.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// untilKilled returns a context that ends when the node is killed as well. The renewal of its certificate lives as long as that.
func (n *node) untilKilled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-n.options.Kill:
			n.life.endNode()
		case <-n.life.ended:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// unlessEnded is err, nil when ctx has ended, or ErrKilled: what breaks because the node was told to end has not failed.
func (n *node) unlessEnded(ctx context.Context, err error) error {
	switch {
	case n.life.hasEnded():
		return ErrKilled
	case context.Cause(ctx) == nil:
		return err
	default:
		return nil
	}
}

// pauseFor waits and reports whether ctx is still alive.
func pauseFor(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}
