package hollownode

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/footprint"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/identity"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
)

// settling is how long a kubelet takes to start, on a busy machine.
const settling = 15 * time.Second

// Run makes this process the hollow kubelet of one Node and returns nil when ctx ends. A kubelet lives as
// long as its process: Run is called once, and the process must end soon after.
//
// The Node stays when the process ends. If the Node is deleted while the process runs, it is registered
// again within seconds: end the process first to be rid of it. If another machine registers under the Node's name, Run
// returns an error, and nothing is written to that machine's Node.
func Run(ctx context.Context, options Options) error {
	configuration, err := options.loadConfiguration()
	if err != nil {
		return err
	}
	if options.StateDir, err = filepath.Abs(options.StateDir); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	if err := kubeletversion.Report(cmp.Or(configuration.KubeletVersion, kubeletversion.BuiltIn())); err != nil {
		return err
	}
	n, err := newNode(configuration, options)
	if err != nil {
		return err
	}
	monitor := &health{gate: n.runtime.Gate()}
	follower, err := n.followPlan(ctx, monitor)
	if err != nil {
		return err
	}
	if !pauseFor(ctx, configuration.StartupDelay.Duration) || !follower.AwaitPresence(ctx) {
		return nil
	}

	logger := klog.FromContext(ctx)
	logger.Info("Joining", "node", configuration.NodeName, "kubelet", kubeletversion.BuiltIn())
	config, err := identity.Join(ctx, identity.Options{
		NodeName:            configuration.NodeName,
		BootstrapKubeconfig: options.bootstrapKubeconfig(),
		Directory:           certificateDir(options.StateDir),
		UserAgent:           "hollow-node/" + kubeletversion.BuiltIn(),
	})
	if err != nil {
		return unlessEnded(ctx, err)
	}
	k, dependencies, err := n.buildKubelet(ctx, config)
	if err != nil {
		return err
	}
	if err := n.turnUnhealthy(follower); err != nil {
		return err
	}
	monitor.watchKubelet(ctx, k)
	startKubelet(ctx, k, dependencies)
	settled := time.After(settling)
	for {
		select {
		case <-settled:
			footprint.Rest()
		case err := <-n.registration.lost:
			return unlessEnded(ctx, err)
		case <-ctx.Done():
			return nil
		}
	}
}

// unlessEnded is err, or nil when ctx has ended: what an end that was asked for breaks is no failure.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
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
