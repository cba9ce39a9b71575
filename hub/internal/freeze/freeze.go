package freeze

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// Verdict says whether something is frozen, and why. The zero value is not frozen.
type Verdict struct {
	Frozen bool
	// Reason is a constant of package v1alpha1.
	Reason string
	// Message says why, and what ends the freeze.
	Message string
	// Passing: it holds for this process only and ends within seconds, so it is not worth a write.
	Passing bool
}

// First returns the first verdict that freezes, or one that does not.
func First(verdicts ...Verdict) Verdict {
	for _, verdict := range verdicts {
		if verdict.Frozen {
			return verdict
		}
	}
	return Verdict{}
}

// Condition is the Frozen condition of an object of that generation.
func (v Verdict) Condition(generation int64) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.FrozenCondition, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonNotFrozen, ObservedGeneration: generation,
	}
	if v.Frozen {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, v.Reason, v.Message
	}
	return condition
}

// Besides is v, with what other freezes as well. A freeze that passes by itself is not worth a word.
func (v Verdict) Besides(other Verdict) Verdict {
	switch {
	case !v.Frozen:
		return other
	case other.Frozen && !other.Passing:
		v.Message += "; besides: " + other.Message
	}
	return v
}

// All is the first verdict that freezes, with what else does.
func All(verdicts ...Verdict) Verdict {
	var all Verdict
	for _, verdict := range verdicts {
		all = all.Besides(verdict)
	}
	return all
}

// OfAnnotation is the freeze that a user put on an object of that kind, such as "Cluster".
func OfAnnotation(kind string, object metav1.Object) Verdict {
	reason, found := object.GetAnnotations()[v1alpha1.FreezeAnnotation]
	if !found {
		return Verdict{}
	}
	if reason == "" {
		reason = "no reason given"
	}
	who := "by"
	if user := object.GetAnnotations()[v1alpha1.FreezeUserAnnotation]; user != "" {
		who = fmt.Sprintf("by %s, with", user)
	}
	return Verdict{Frozen: true, Reason: v1alpha1.ReasonManualFreeze, Message: fmt.Sprintf(
		"%s %s is frozen %s its annotation %s (%s); remove the annotation to continue",
		kind, object.GetName(), who, v1alpha1.FreezeAnnotation, reason)}
}

// OfCluster is what a cluster means for the objects in namespace that name it; nil is a cluster that does
// not exist.
func OfCluster(name, namespace string, cluster *v1alpha1.Cluster) Verdict {
	if name != namespace {
		return Verdict{Frozen: true, Reason: v1alpha1.ReasonNamespaceConflict, Message: fmt.Sprintf(
			"spec.clusterName is %q but the namespace is %q: create the object in namespace %q", name, namespace, name)}
	}
	if cluster == nil {
		return Verdict{Frozen: true, Reason: v1alpha1.ReasonClusterNotFound, Message: fmt.Sprintf(
			"there is no Cluster %q; create and accept it to continue", name)}
	}
	if cluster.DeletionTimestamp != nil {
		return Verdict{Frozen: true, Reason: v1alpha1.ReasonDeleting, Message: fmt.Sprintf("Cluster %s is being deleted", name)}
	}
	return First(notAccepted(cluster), OfAnnotation("Cluster", cluster), OfCondition("Cluster", cluster, cluster.Status.Conditions), OfAgent(cluster))
}

// OfDeployment is what a MachineDeployment means for its MachineSets.
func OfDeployment(deployment *v1alpha1.MachineDeployment) Verdict {
	return First(OfAnnotation("MachineDeployment", deployment), OfCondition("MachineDeployment", deployment, deployment.Status.Conditions))
}

// OfStart is the one rule for whether a load test or a disruption may start in a cluster. It asks for a cluster that is there, decoded,
// accepted, not being deleted and not frozen, and whose agent is connected. What is under way is the matter of OfCluster. Fleets have a
// rule of their own, because they also need the cluster Ready.
func OfStart(name string, cluster *v1alpha1.Cluster) Verdict {
	if cluster != nil {
		if undecoded := OfDecoding(cluster); undecoded.Frozen {
			return undecoded
		}
	}
	if frozen := OfCluster(name, name, cluster); frozen.Frozen {
		return frozen
	}
	switch connected := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition); {
	case connected == nil:
		return Verdict{Frozen: true, Reason: v1alpha1.ReasonNeverSeen, Message: fmt.Sprintf("the agent of Cluster %s has never been connected", name)}
	case connected.Status != metav1.ConditionTrue:
		return Verdict{Frozen: true, Reason: connected.Reason, Message: fmt.Sprintf("the agent of Cluster %s is not connected: %s", name, connected.Message)}
	}
	return Verdict{}
}

// OfAgent is what the cluster's agent says of itself. The Cluster's Frozen condition repeats it, a moment later. An agent
// that does not know freezes too; one that has never said anything is the matter of others.
func OfAgent(cluster *v1alpha1.Cluster) Verdict {
	agent := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentFrozenCondition)
	if agent == nil || agent.Status == metav1.ConditionFalse {
		return Verdict{}
	}
	says := "The agent is frozen: "
	if agent.Status != metav1.ConditionTrue {
		says = "The agent does not know whether it is frozen: "
	}
	return Verdict{Frozen: true, Reason: agent.Reason, Message: says + agent.Message}
}

func notAccepted(cluster *v1alpha1.Cluster) Verdict {
	if denied := OfDenial(cluster); denied.Frozen {
		return denied
	}
	if !cluster.Accepted() {
		return Verdict{Frozen: true, Reason: v1alpha1.ReasonAwaitingAcceptance, Message: fmt.Sprintf("Cluster %s is not accepted yet: set its spec.acceptance to Accepted to continue", cluster.Name)}
	}
	accepted := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAcceptedCondition)
	if accepted == nil {
		return Verdict{Frozen: true, Reason: v1alpha1.ReasonPending, Message: fmt.Sprintf("the hub has not prepared the namespace of Cluster %s yet", cluster.Name)}
	}
	if accepted.Status != metav1.ConditionTrue {
		return Verdict{Frozen: true, Reason: accepted.Reason, Message: fmt.Sprintf("Cluster %s: %s", cluster.Name, accepted.Message)}
	}
	return Verdict{}
}

// Blind reports whether a freeze for reason means that the state of the cluster's Machines is not known: all that is known
// of them is what was told last.
func Blind(reason string) bool {
	switch reason {
	case v1alpha1.ReasonAgentSilent, v1alpha1.ReasonStarting, v1alpha1.ReasonHubUnreachable, v1alpha1.ReasonHostUnreachable,
		v1alpha1.ReasonLeaseNotHeld, v1alpha1.ReasonHubUnchecked, v1alpha1.ReasonTargetUnreachable, v1alpha1.ReasonRelisting:
		return true
	}
	return false
}

// OfDenial is the freeze of a cluster that a user has denied.
func OfDenial(cluster *v1alpha1.Cluster) Verdict {
	if cluster.Spec.Acceptance != v1alpha1.AcceptanceDenied {
		return Verdict{}
	}
	return Verdict{Frozen: true, Reason: v1alpha1.ReasonDenied, Message: fmt.Sprintf(
		"Cluster %s is denied: set its spec.acceptance to Accepted to continue", cluster.Name)}
}

// OfDecoding is the freeze by an object that cannot be decoded, so that what it asks for is not known.
func OfDecoding(object client.Object) Verdict {
	err := undecodable.Check(object)
	if err == nil {
		return Verdict{}
	}
	return Verdict{Frozen: true, Reason: v1alpha1.ReasonUndecodable, Message: err.Error()}
}

// OfCondition is the Frozen condition of an object of that kind. One that is Unknown freezes too.
func OfCondition(kind string, object metav1.Object, conditions []metav1.Condition) Verdict {
	frozen := meta.FindStatusCondition(conditions, v1alpha1.FrozenCondition)
	if frozen == nil || frozen.Status == metav1.ConditionFalse {
		return Verdict{}
	}
	return Verdict{Frozen: true, Reason: frozen.Reason, Message: fmt.Sprintf("%s %s is frozen: %s", kind, object.GetName(), frozen.Message)}
}

// OfOvershoot freezes a set that has far more Machines than were asked for, as message says. An empty one freezes nothing.
func OfOvershoot(message string) Verdict {
	if message == "" {
		return Verdict{}
	}
	return Verdict{Frozen: true, Reason: v1alpha1.ReasonOvershoot, Message: message}
}
