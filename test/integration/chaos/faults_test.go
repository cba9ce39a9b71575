package chaos

import (
	"context"
	"fmt"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/process"
	"github.com/hollowfleet/hollowfleet/internal/simcluster"
)

// fault breaks one thing. Its end mends it, and may be called when nothing is broken any more.
type fault struct {
	name  string
	begin func(ctx context.Context) (end func(ctx context.Context))
}

// faults are all that can be broken.
func faults() []fault {
	all := []fault{
		processFault("kill the hub", func() *process.Process { return fleet.HubProcess }, syscall.SIGKILL),
		processFault("stop the hub", func() *process.Process { return fleet.HubProcess }, syscall.SIGSTOP),
	}
	all = append(all, clusterFaults("the hub", fleet.Hub)...)
	for _, member := range fleet.Members {
		agent := func() *process.Process { return member.Agent }
		all = append(all,
			processFault("kill the agent of "+member.Name, agent, syscall.SIGKILL),
			processFault("stop the agent of "+member.Name, agent, syscall.SIGSTOP))
		all = append(all, clusterFaults(member.Name, member.Cluster)...)
	}
	return all
}

// processFault sends a signal to a process of ours: SIGSTOP is taken back at the end, and one that has ended by
// then is started again.
func processFault(name string, of func() *process.Process, signal syscall.Signal) fault {
	return fault{name: name, begin: func(context.Context) func(context.Context) {
		victim := of()
		if running(victim) {
			Expect(victim.Signal(signal)).To(Succeed(), name)
		}
		return func(context.Context) {
			if signal == syscall.SIGSTOP && running(victim) {
				Expect(victim.Signal(syscall.SIGCONT)).To(Succeed(), name)
			}
		}
	}}
}

func clusterFaults(name string, cluster *simcluster.Cluster) []fault {
	var all []fault
	for _, component := range []string{"kube-apiserver", "etcd", "kube-controller-manager"} {
		// What another fault has ended already cannot be paused or killed: then there is nothing to do.
		do := func(ctx context.Context, action string) bool {
			err := cluster.Component(ctx, action, component)
			if err != nil {
				say("%v", err)
			}
			return err == nil
		}
		all = append(all, fault{
			name: fmt.Sprintf("pause %s of %s", component, name),
			begin: func(ctx context.Context) func(context.Context) {
				paused := do(ctx, "pause")
				return func(ctx context.Context) {
					if paused {
						do(ctx, "resume")
					}
				}
			},
		}, fault{
			name: fmt.Sprintf("kill %s of %s", component, name),
			begin: func(ctx context.Context) func(context.Context) {
				do(ctx, "kill")
				return func(context.Context) {} // simcluster starts it again.
			},
		})
	}
	return all
}

func running(p *process.Process) bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// supervise starts hub and agents again when they have ended, as their Deployments would do.
func supervise(ctx context.Context) {
	if !running(fleet.HubProcess) {
		if err := fleet.StartHubProcess(ctx); err != nil {
			GinkgoWriter.Println("starting the hub again:", err)
		}
	}
	for _, member := range fleet.Members {
		superviseAgent(ctx, member)
	}
}

func superviseAgent(ctx context.Context, member *localfleet.Member) {
	if running(member.Agent) {
		return
	}
	if err := fleet.StartAgent(ctx, member); err != nil {
		GinkgoWriter.Printf("starting the agent of %s again: %v\n", member.Name, err)
	}
}
