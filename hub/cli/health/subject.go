// Package health judges whether the objects of a fleet are healthy. It is pure: objects in, findings out.
//
// An object is healthy only if it was seen to be: one without a status, or whose status is about an earlier spec, is not.
package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// The kinds that are judged.
const (
	Cluster           = "Cluster"
	MachineFleet      = "MachineFleet"
	FleetApproval     = "FleetApproval"
	MachineDeployment = "MachineDeployment"
	MachineSet        = "MachineSet"
	Machine           = "Machine"
	MachineClass      = "MachineClass"
	NodeDisruption    = "NodeDisruption"
	NodeDisruptionRun = "NodeDisruptionRun"
	LoadTest          = "LoadTest"
	LoadTestRun       = "LoadTestRun"

	SimulatedCluster    = "SimulatedCluster"
	SimulatedClusterSet = "SimulatedClusterSet"
)

// subject is what the judgement needs of an object of any kind.
type subject struct {
	client.Object

	kind string
	// cluster is the Cluster that the object belongs to; empty for an object of the whole fleet.
	cluster    string
	conditions []metav1.Condition
	// observed is status.observedGeneration; those of runs have none, and tracked is false.
	observed int64
	tracked  bool
	// phase, verdict and message are those of the status. failed counts the clusters that are.
	phase, verdict, message string
	failed                  string
	// awaited are the groups of a fleet that wait for an approval.
	awaited []string
	// left is what has no agent in a cluster.
	left        string
	paused      bool
	undecodable string
	// class is the object, if it is one.
	class *v1alpha1.MachineClass
	// lifetime is how long it may be in its phase.
	lifetime lifetime
	// reported is when its status was last changed, and mostQuiet how long it may stay as it is; 0 without a bound.
	reported  metav1.Time
	mostQuiet time.Duration
}

// subjectOf reads an object. It returns nil for one of another kind.
func subjectOf(object client.Object) *subject {
	s := &subject{Object: object, tracked: true}
	if decoded, may := object.(interface{ NotDecoded() string }); may {
		s.undecodable = decoded.NotDecoded()
	}
	switch o := object.(type) {
	case *v1alpha1.Cluster:
		s.kind, s.conditions, s.observed = Cluster, o.Status.Conditions, o.Status.ObservedGeneration
		s.left = describeOrphans(o.Status.Orphans)
	case *v1alpha1.MachineFleet:
		s.kind, s.conditions, s.observed = MachineFleet, o.Status.Conditions, o.Status.ObservedGeneration
		s.awaited = o.Status.AwaitingApproval
		s.paused, s.message, s.failed = o.Spec.Paused, o.Status.Message, brokenClusters(&o.Status.Clusters, len(o.Status.Failures))
	case *v1alpha1.MachineDeployment:
		s.kind, s.conditions, s.observed = MachineDeployment, o.Status.Conditions, o.Status.ObservedGeneration
		s.paused, s.cluster = o.Spec.Paused, o.Namespace
	case *v1alpha1.MachineSet:
		s.kind, s.conditions, s.observed, s.cluster = MachineSet, o.Status.Conditions, o.Status.ObservedGeneration, o.Namespace
	case *v1alpha1.Machine:
		s.kind, s.conditions, s.observed, s.cluster = Machine, o.Status.Conditions, o.Status.ObservedGeneration, o.Namespace
		s.phase, s.failed = string(o.Status.Phase), cmp.Or(o.Status.ErrorMessage, o.Status.ErrorReason)
	case *v1alpha1.MachineClass:
		s.kind, s.tracked, s.class = MachineClass, false, o
	case *v1alpha1.FleetApproval:
		s.kind, s.tracked = FleetApproval, false
	case *v1alpha1.SimulatedCluster:
		s.kind, s.conditions, s.observed, s.cluster = SimulatedCluster, o.Status.Conditions, o.Status.ObservedGeneration, o.Namespace
	case *v1alpha1.SimulatedClusterSet:
		s.kind, s.conditions, s.observed = SimulatedClusterSet, o.Status.Conditions, o.Status.ObservedGeneration
		rollout := &o.Status.Rollout
		s.awaited, s.paused = rollout.AwaitingApproval, o.Spec.Rollout.Paused
		s.failed, s.message = brokenClusters(&rollout.Clusters, len(rollout.Failures)), messageOf(o.Status.Conditions, v1alpha1.ProgressingCondition)
	default:
		return subjectOfTest(s, object)
	}
	return s
}

// subjectOfTest is subjectOf for what a user lets happen to a fleet: disruptions and loads.
func subjectOfTest(s *subject, object client.Object) *subject {
	switch o := object.(type) {
	case *v1alpha1.NodeDisruption:
		s.kind, s.conditions, s.observed = NodeDisruption, o.Status.Conditions, o.Status.ObservedGeneration
		s.phase, s.verdict, s.message, s.paused = string(o.Status.Phase), string(o.Status.Verdict), o.Status.Message, o.Spec.Paused
		s.failed, s.lifetime = failedClusters(o.Status.Failed, o.Status.Clusters), lifetimeOfDisruption(o)
	case *v1alpha1.NodeDisruptionRun:
		s.kind, s.conditions, s.tracked, s.cluster = NodeDisruptionRun, o.Status.Conditions, false, o.Namespace
		s.phase, s.verdict, s.message, s.paused = string(o.Status.Phase), string(o.Status.Verdict), o.Status.Message, o.Spec.Paused
		s.lifetime = lifetimeOfDisruptionRun(o)
	case *v1alpha1.LoadTest:
		s.kind, s.conditions, s.observed = LoadTest, o.Status.Conditions, o.Status.ObservedGeneration
		s.phase, s.verdict, s.message = string(o.Status.Phase), string(o.Status.Verdict), o.Status.Message
		s.failed, s.lifetime = failedClusters(o.Status.Failed, o.Status.Clusters), lifetimeOfLoadTest(o)
	case *v1alpha1.LoadTestRun:
		s.kind, s.conditions, s.tracked, s.cluster = LoadTestRun, o.Status.Conditions, false, o.Namespace
		s.phase, s.verdict, s.message = string(o.Status.Phase), string(o.Status.Verdict), o.Status.Message
		s.failed, s.lifetime, s.reported = o.Status.Failure, lifetimeOfLoadTestRun(o), lastReport(o)
		if o.Status.Phase == v1alpha1.LoadTestRunPhaseRunning {
			s.mostQuiet = longestSilence + longestPhase(&o.Spec.Load)
		}
	default:
		return nil
	}
	return s
}

// describeOrphans counts what is in a cluster without a Machine.
func describeOrphans(orphans *v1alpha1.Orphans) string {
	if orphans == nil || orphans.Instances+orphans.Nodes+orphans.CertificateRequests == 0 {
		return ""
	}
	return fmt.Sprintf("objects without a Machine: %s, %s and %s, such as %s: delete in the workload cluster what you do not need",
		plural.Count(orphans.Instances, "pod"), plural.Count(orphans.Nodes, "Node"), plural.Count(orphans.CertificateRequests, "certificate request"), cmp.Or(strings.Join(orphans.Names, ", "), "-"))
}

func failedClusters(failed, of int32) string {
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("failed in %d of %s", failed, plural.Count(int(of), "cluster"))
}

// brokenClusters counts the clusters of a rollout in which something is wrong, whatever the conditions say: it may continue in the others,
// or be over within what may fail. failures is how many the status names.
func brokenClusters(counts *v1alpha1.MachineFleetClusters, failures int) string {
	var parts []string
	for _, part := range []struct {
		what  string
		count int32
	}{{"failed", counts.Failed}, {"blocked", counts.Blocked}, {"held", counts.Held}, {"rolled back", counts.RolledBack}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.what))
		}
	}
	if len(parts) == 0 && failures > 0 {
		parts = append(parts, fmt.Sprintf("%d with failures", failures))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("of %s: %s", plural.Count(int(counts.Selected), "cluster"), strings.Join(parts, ", "))
}

// messageOf is the message of a condition; empty without one.
func messageOf(conditions []metav1.Condition, kind string) string {
	if found := meta.FindStatusCondition(conditions, kind); found != nil {
		return found.Message
	}
	return ""
}

// isRolledInWaves reports whether the object is a rollout over clusters.
func (s *subject) isRolledInWaves() bool {
	return s.kind == MachineFleet || s.kind == SimulatedClusterSet
}

// parentOf is the controller of an object as "Kind/name"; empty for none.
func (s *subject) parentOf() (kind, name string) {
	if owner := metav1.GetControllerOf(s.Object); owner != nil {
		return owner.Kind, owner.Name
	}
	return "", ""
}
