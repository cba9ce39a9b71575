package health

import (
	"fmt"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// nextCommand is the command that mends what was found, or shows more of it.
func nextCommand(s *subject, found judgement) string {
	if command := nextOfReason(s, found.reason); command != "" {
		return command
	}
	if strings.HasPrefix(found.reason, ReasonTakesLong) && s.lifetime.next != "" {
		return s.lifetime.next
	}
	name := s.GetName()
	switch s.kind {
	case Cluster:
		return "kubectl hollow cluster list " + name + " -o wide"
	case MachineFleet:
		return "kubectl hollow fleet status " + name
	case MachineClass:
		return "kubectl edit machineclass " + name + " -n " + s.GetNamespace()
	case SimulatedClusterSet:
		if found.reason == v1alpha1.ReasonRollingOut || found.reason == ReasonClusters {
			return "kubectl hollow rollout status simulatedclusterset " + name
		}
		return "kubectl describe simulatedclusterset " + name
	case FleetApproval:
		return "kubectl describe " + resourceName(s.kind) + " " + name
	case NodeDisruption, LoadTest:
		if s.kind == LoadTest {
			return "kubectl hollow loadtest report " + name
		}
		return "kubectl describe nodedisruption " + name
	}
	return describeSubject(s)
}

func describeSubject(s *subject) string {
	return fmt.Sprintf("kubectl describe %s %s -n %s", resourceName(s.kind), s.GetName(), s.GetNamespace())
}

func nextOfReason(s *subject, reason string) string {
	name := s.GetName()
	switch reason {
	case v1alpha1.ReasonUndecodable:
		if s.undecodable != "" {
			return "kubectl edit " + resourceName(s.kind) + " " + name + inNamespace(s)
		}
	case v1alpha1.ReasonAgentSilent:
		if s.cluster != "" && s.kind != Machine {
			return "kubectl hollow cluster list " + s.cluster + " -o wide"
		}
	case v1alpha1.ReasonClusterNotFound:
		return "kubectl hollow cluster join " + s.cluster
	case v1alpha1.ReasonManualFreeze:
		switch s.kind {
		case Cluster, MachineFleet, MachineDeployment, MachineSet:
			return "kubectl hollow unfreeze " + resourceName(s.kind) + " " + name + inNamespace(s)
		}
	case v1alpha1.ReasonPaused:
		return nextOfPause(s)
	case v1alpha1.ReasonAwaitingApproval:
		return "kubectl hollow rollout approve " + resourceName(s.kind) + " " + name + s.groupFlag()
	case v1alpha1.ReasonAwaitingAcceptance, v1alpha1.ReasonDenied:
		if s.kind == Cluster {
			return "kubectl hollow cluster accept " + name
		}
	case v1alpha1.ReasonHubChanged, v1alpha1.ReasonHubRestored, v1alpha1.ReasonHubEmpty:
		return "kubectl hollow cluster acknowledge " + name
	case v1alpha1.ReasonNamespaceDeleting:
		return "kubectl hollow cluster remove-finalizers " + name
	}
	return ""
}

// groupFlag names the group that waits for an approval; several are for the user to choose from.
func (s *subject) groupFlag() string {
	if len(s.awaited) != 1 {
		return ""
	}
	return " --group " + s.awaited[0]
}

func nextOfPause(s *subject) string {
	switch s.kind {
	case MachineFleet, MachineDeployment, SimulatedClusterSet:
		return "kubectl hollow rollout resume " + resourceName(s.kind) + " " + s.GetName() + inNamespace(s)
	case NodeDisruption:
		return "kubectl hollow disrupt resume " + s.GetName()
	}
	return ""
}

func inNamespace(s *subject) string {
	if s.GetNamespace() == "" {
		return ""
	}
	return " -n " + s.GetNamespace()
}
