package rollout

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// summary is the fleet's clusters by what the status says of them.
type summary struct {
	counts   v1alpha1.MachineFleetClusters
	failures []v1alpha1.MachineFleetFailure
	failed   []string
	// rollingBack are being given what they had before, and rolledBack have it.
	rollingBack, rolledBack []string
	held, blocked, down     []string
	// unreached have no MachineDeployment, because the rollout has not come to them.
	unreached []string
	// leaving are in progress and do not belong to the fleet any more; leftFailed have failed before they left.
	leaving, leftFailed []string
	// unhealthy are those for which a condition of spec.healthConditions does not hold.
	unhealthy []string
	// whyBlocked and whyUnhealthy are of the first of them.
	whyBlocked, whyUnhealthy string
	// awaiting are those that wait for their control planes, and whyAwaiting is why the first does.
	awaiting    []string
	whyAwaiting string
	// blind is how many clusters have a state that is not known.
	blind int
}

// summarizeMembers counts the members.
func (s *Scope) summarizeMembers(p plan.Plan) summary {
	var sum summary
	for _, m := range s.Members {
		name := m.Cluster.Name
		phase := s.phaseOf(m)
		if !m.Selected {
			sum.addLeft(name, phase)
			continue
		}
		sum.counts.Selected++
		sum.countCluster(name, phase)
		failure := s.failureOf(m)
		if slices.Contains(p.NotRolledBack, name) {
			failure = m.notRolledBack(failure)
		}
		if failure != nil {
			sum.addFailure(name, *failure)
		}
		sum.addReach(m, phase, s.failsUnreachable(m))
		if why := m.unhealthyIn(phase); len(why) > 0 {
			sum.unhealthy, sum.whyUnhealthy = append(sum.unhealthy, name), cmp.Or(sum.whyUnhealthy, why[0])
		}
		if m.awaitsControlPlane() {
			sum.awaiting, sum.whyAwaiting = append(sum.awaiting, name), cmp.Or(sum.whyAwaiting, m.blocked[0].Message)
		} else if len(m.blocked) > 0 {
			sum.counts.Blocked++
			sum.blocked, sum.whyBlocked = append(sum.blocked, name), cmp.Or(sum.whyBlocked, joinProblems(m.blocked).Message)
			if failure == nil {
				sum.addFailure(name, joinProblems(m.blocked))
			}
		}
	}
	return sum
}

// awaitsControlPlane reports whether nothing but the upgrade of its control plane is in the way of a start.
func (m *Member) awaitsControlPlane() bool {
	return len(m.blocked) > 0 && !slices.ContainsFunc(m.blocked, func(p Problem) bool { return p.Reason != v1alpha1.ReasonAwaitingControlPlane })
}

// addReach notes a cluster that the hub does not act in, that the rollout has not reached, or that is unavailable.
func (sum *summary) addReach(m *Member, phase plan.Phase, fails bool) {
	name := m.Cluster.Name
	switch {
	case m.held != "":
		sum.blind++
		if phase != plan.Succeeded {
			sum.counts.Held++
		}
		if phase != plan.Succeeded && !fails {
			sum.held = append(sum.held, name)
		}
	case m.Deployment == nil && phase == plan.ToApply && len(m.blocked) == 0:
		sum.unreached = append(sum.unreached, name)
	case !m.isAvailable():
		sum.down = append(sum.down, name)
	}
}

// addLeft notes a cluster that has left the fleet in the middle of the revision. It is not counted.
func (sum *summary) addLeft(cluster string, phase plan.Phase) {
	switch phase {
	case plan.Progressing, plan.Soaking, plan.RollingBack:
		sum.leaving = append(sum.leaving, cluster)
	case plan.Failed, plan.TimedOut, plan.RollbackFailed:
		sum.leftFailed = append(sum.leftFailed, cluster)
	case plan.ToApply, plan.Succeeded, plan.RolledBack:
	}
}

func (sum *summary) countCluster(cluster string, phase plan.Phase) {
	switch phase {
	case plan.ToApply:
		sum.counts.Waiting++
	case plan.Progressing:
		sum.counts.Progressing++
	case plan.Soaking:
		sum.counts.Soaking++
	case plan.Succeeded:
		sum.counts.Updated++
	case plan.Failed, plan.TimedOut, plan.RollbackFailed:
		sum.counts.Failed++
		sum.failed = append(sum.failed, cluster)
	case plan.RollingBack:
		sum.counts.RollingBack++
		sum.rollingBack = append(sum.rollingBack, cluster)
	case plan.RolledBack:
		sum.counts.RolledBack++
		sum.rolledBack = append(sum.rolledBack, cluster)
	}
}

func namesOf(members []*Member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.Cluster.Name)
	}
	return names
}

func (sum *summary) addFailure(cluster string, p Problem) {
	if len(sum.failures) < mostFailures {
		sum.failures = append(sum.failures, v1alpha1.MachineFleetFailure{
			Cluster: cluster, Reason: p.Reason, Message: conditions.Shorten(p.Message, longestFailure),
		})
	}
}

// joinProblems is several problems as one.
func joinProblems(problems []Problem) Problem {
	all := problems[0]
	for _, p := range problems[1:] {
		all.Message += "; " + p.Message
	}
	return all
}

// groupsHaveClusters is the type of the fact that the groups of a fleet have clusters.
const groupsHaveClusters = "GroupsHaveClusters"

// groupFact says whether the groups that have to have a cluster do. A fleet whose clusters all have the revision is not well without:
// its next rollout would wait for the group, or go past the gate that it was.
func (s *Scope) groupFact() metav1.Condition {
	fact := metav1.Condition{Type: groupsHaveClusters, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady}
	if s.Invalid != nil || s.selectedCount() == 0 {
		return fact // That says enough.
	}
	mandatory := plan.MandatoryGroups(s.Fleet.Spec.RolloutStrategy)
	for _, group := range s.Fleet.Spec.Groups {
		if slices.ContainsFunc(s.Members, func(m *Member) bool { return m.Selected && m.group == group.Name }) {
			continue
		}
		var why string
		switch {
		case slices.Contains(mandatory, group.Name):
			why = "it is mandatory and has no cluster"
		case s.hasLost(group.Name):
			why = "it has lost all its clusters"
		default:
			continue
		}
		remedy := "correct its clusterSelector or the labels of the Clusters"
		if group.ClusterSelector == nil {
			remedy = "correct its name or the decision groups of the Placement"
		}
		fact.Status, fact.Reason = metav1.ConditionFalse, v1alpha1.ReasonGroupWithoutCluster
		fact.Message = fmt.Sprintf("spec.groups[%s]: %s, so the next rollout would lack that gate: %s, or remove the group", group.Name, why, remedy)
		return fact
	}
	return fact
}

// hasLost reports whether a cluster of the fleet was started in a group.
func (s *Scope) hasLost(group string) bool {
	return slices.ContainsFunc(slices.Concat(s.Members, s.Left), func(m *Member) bool { return m.Record != nil && m.Record.Group == group })
}
