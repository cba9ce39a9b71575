package faults

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// signs are how one sees that somebody has frozen because of a fault: what an agent says of itself, and what the hub
// says of the cluster. Empty is nothing.
type signs struct{ agent, hub string }

// signsOf a fault that comes alone. What is killed comes back at once, a slow network carries everything, and without
// the hub process nobody orders anything: then nobody has to freeze.
func signsOf(fault fleettest.Fault) signs {
	if fault.Way == fleettest.Kill || fault.Way == fleettest.Slow {
		return signs{}
	}
	switch fault.Part {
	case fleettest.HubServer, fleettest.HubEtcd:
		return signs{agent: v1alpha1.ReasonHubUnreachable}
	case fleettest.Agent:
		if fault.Way == fleettest.Stop {
			return signs{hub: v1alpha1.ReasonAgentSilent}
		}
		return signs{agent: v1alpha1.ReasonHubUnreachable, hub: v1alpha1.ReasonAgentSilent}
	case fleettest.TargetServer, fleettest.TargetEtcd:
		return signs{agent: v1alpha1.ReasonTargetUnreachable, hub: v1alpha1.ReasonTargetUnreachable}
	case fleettest.HostLink:
		return signs{agent: v1alpha1.ReasonHostUnreachable, hub: v1alpha1.ReasonHostUnreachable}
	default:
		return signs{}
	}
}

// lasts is how long faults last that show no sign.
func lasts(faults []fleettest.Fault) time.Duration {
	if slices.ContainsFunc(faults, func(f fleettest.Fault) bool { return f.Way != fleettest.Kill }) {
		return long
	}
	return brief
}

// feel waits until everybody who has to freeze has frozen, and then asks that the frozen do nothing for a while.
func feel(ctx context.Context, rounds round) {
	GinkgoHelper()
	for i, h := range herds {
		if len(rounds[i]) > 1 || signsOf(rounds[i][0]) == (signs{}) {
			pass(ctx, lasts(rounds[i]))
			return
		}
		want := signsOf(rounds[i][0])
		if want.agent != "" {
			expectAgentSays(ctx, h.member, frozenz{Frozen: true, Reason: want.agent})
		}
		if want.hub != "" {
			expectCondition(ctx, h.member, v1alpha1.FrozenCondition, metav1.ConditionTrue, want.hub)
		}
	}
	before := frozenState(rounds)
	Consistently(ctx, func() [][]string { return frozenState(rounds) }).WithTimeout(quiet).WithPolling(fleettest.Glance).
		Should(Equal(before), "frozen means frozen")
}

// frozenState is what must not change in clusters whose agent, or whose side on the hub, has frozen: the agent makes
// and removes no pods and removes no Nodes, the hub makes and removes no Machines. What was under way on a crawling
// network arrives late, after the freeze of whoever sent it.
func frozenState(rounds round) [][]string {
	var all [][]string
	for i, h := range herds {
		want := signsOf(rounds[i][0])
		if want.agent != "" && rounds[i][0].Way != fleettest.Crawl {
			all = append(all, h.seen.Pods.Made(), h.seen.Pods.Ending(), h.seen.Nodes.Ending())
		}
		if want.hub != "" {
			all = append(all, h.seen.Machines.Made(), h.seen.Machines.Ending())
		}
	}
	return all
}

// pass lets time pass, in which a supervisor starts again what has ended.
func pass(ctx context.Context, duration time.Duration) {
	GinkgoHelper()
	timer, ticker := time.NewTimer(duration), time.NewTicker(time.Second)
	defer timer.Stop()
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			Fail("the spec's time is over")
		case <-timer.C:
			return
		case <-ticker.C:
			Expect(fleet.Supervise(ctx)).To(Succeed())
		}
	}
}
