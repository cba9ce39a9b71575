// The agent of a host asks for the first certificate of a simulated cluster's agent, which nobody else can give it. It gets
// one for nothing but what the hub itself has made for a SimulatedCluster in the host's own namespace.

package csrapprover

import (
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// decideHosted decides on the request of host's agent for the identity of the agent of the simulated cluster of that name.
func decideHosted(csr *certificatesv1.CertificateSigningRequest, host, name string, objects Objects) Decision {
	if !clusterName.MatchString(host) || !clusterName.MatchString(name) {
		return denyDecision(ReasonWrongName, "metadata.name: %q and %q are not both names of Clusters: name the request %s<cluster>, or %s<host>.<cluster>",
			host, name, v1alpha1.AgentRequestPrefix, v1alpha1.AgentRequestPrefix)
	}
	if wrong := checkContents(csr, name); wrong != nil {
		return *wrong
	}
	if wrong := checkHostRequester(csr.Spec.Username, csr.Spec.Groups, host, name); wrong != nil {
		return *wrong
	}
	if held := checkHost(host, objects.Host); held != nil {
		return *held
	}
	if held := checkHosted(host, name, objects); held != nil {
		return *held
	}
	return decideByCluster(name, objects.Cluster, Decision{Verdict: Approve, Reason: ReasonHosted, Message: fmt.Sprintf(
		"requested by the agent of Cluster %s, which hosts this simulated cluster", host)})
}

// checkHostRequester says what is wrong with who asks for cluster's agent; nil if it is the agent of host with a certificate. A join
// token asks for its own cluster only.
func checkHostRequester(user string, groups []string, host, cluster string) *Decision {
	if user != v1alpha1.AgentUserPrefix+host {
		return deniedDecision(ReasonWrongRequester, "spec.username: %q is not the agent of Cluster %s with a certificate: "+
			"only that asks for Cluster %s by this name, and a Cluster hosts simulated clusters with spec.credential Certificate only", user, host, cluster)
	}
	return checkAgentGroups(user, groupsOf(groups, v1alpha1.JoinGroupPrefix), groupsOf(groups, v1alpha1.AgentGroupPrefix), host)
}

// checkHost says what the host means for a request of its agent that is right; nil if it hinders nothing.
func checkHost(name string, host *v1alpha1.Cluster) *Decision {
	switch decision := decideByCluster(name, host, Decision{Verdict: Approve, Message: "requested by the agent of Cluster " + name}); {
	case decision.Verdict != Approve:
		return &decision
	case host.IsSimulated():
		return deniedDecision(ReasonHostSimulated, "Cluster %s is simulated itself, so it hosts no simulated clusters", name)
	}
	return nil
}

// checkHosted says whether the hub has made the Cluster of that name for a SimulatedCluster of host; nil if it has.
func checkHosted(host, name string, objects Objects) *Decision {
	hosted, cluster := objects.Hosted, objects.Cluster
	if hosted == nil || hosted.Namespace != host || hosted.Name != name {
		if cluster != nil && simulatedIn(cluster) != host {
			return deniedDecision(ReasonNotHosted, "Cluster %s is not one that Cluster %s hosts: there is no SimulatedCluster %s/%s", name, host, host, name)
		}
		return &Decision{Verdict: Wait, Reason: ReasonSimulatedNotFound, Message: fmt.Sprintf("there is no SimulatedCluster %s/%s", host, name)}
	}
	switch {
	case hosted.DeletionTimestamp != nil:
		return deniedDecision(ReasonClusterDeleting, "SimulatedCluster %s/%s is being removed", host, name)
	case cluster == nil || cluster.Name != name:
		return nil // The next check waits for it.
	case cluster.Annotations[v1alpha1.SimulatedClusterAnnotation] != hosted.ProofOfSimulation():
		return deniedDecision(ReasonNotHosted, "Cluster %s is not that of SimulatedCluster %s/%s: its annotation %s is %q, not %q",
			name, host, name, v1alpha1.SimulatedClusterAnnotation, cluster.Annotations[v1alpha1.SimulatedClusterAnnotation], hosted.ProofOfSimulation())
	case cluster.IsLeaving():
		return deniedDecision(ReasonClusterDeleting, "Cluster %s is being removed", name)
	}
	return nil
}

// simulatedIn returns the namespace of the SimulatedCluster for which the hub made cluster; empty for a Cluster that is real.
func simulatedIn(cluster *v1alpha1.Cluster) string {
	namespace, _, _ := strings.Cut(cluster.Annotations[v1alpha1.SimulatedClusterAnnotation], "/")
	return namespace
}
