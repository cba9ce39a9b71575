// Package cluster has the commands of "kubectl hollow cluster", and "kubectl hollow freeze" and "unfreeze".
package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

// factsOf is what to know of a cluster that has been worked on.
func factsOf(cluster *v1alpha1.Cluster) []cmdutil.Fact {
	machines := ""
	if counts := cluster.Status.Machines; counts != nil {
		machines = fmt.Sprintf("%d of %d ready", counts.Ready, counts.Total)
	}
	return []cmdutil.Fact{
		{Name: "Namespace", Value: cmp.Or(cluster.Status.Namespace, "not made yet")},
		{Name: "Credential", Value: string(cluster.Spec.Credential)},
		{Name: "Joined", Value: stateIfKnown(cluster, v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue)},
		{Name: "Workload cluster", Value: cluster.Status.ClusterUID},
		{Name: "Machines", Value: machines},
	}
}

// stateIfKnown is empty for a condition that is not written yet.
func stateIfKnown(cluster *v1alpha1.Cluster, kind string, hoped metav1.ConditionStatus) string {
	if meta.FindStatusCondition(cluster.Status.Conditions, kind) == nil {
		return ""
	}
	return formatCondition(cluster, kind, hoped)
}

// acceptanceFacts is what to know of a cluster whose acceptance has been decided on.
func acceptanceFacts(before, after *v1alpha1.Cluster) []cmdutil.Fact {
	return append([]cmdutil.Fact{{Name: "Acceptance before", Value: formatAcceptance(before)}}, factsOf(after)...)
}

// acknowledgementFacts is what to know of a finding that has been acknowledged: before is the Cluster as it was shown to the user.
func acknowledgementFacts(before, after *v1alpha1.Cluster, finding string) []cmdutil.Fact {
	earlier := ""
	if id := before.Annotations[v1alpha1.AcknowledgeHubAnnotation]; id != "" {
		earlier = id + " by " + cmp.Or(before.Annotations[v1alpha1.AcknowledgeHubUserAnnotation], "an unknown user")
	}
	frozen := ptr.Deref(agentFrozen(before), metav1.Condition{})
	return append([]cmdutil.Fact{
		{Name: "Finding", Value: finding},
		{Name: "Reason", Value: frozen.Reason},
		{Name: "Frozen since", Value: cmdutil.Since(&frozen)},
		{Name: "Acknowledged by", Value: after.Annotations[v1alpha1.AcknowledgeHubUserAnnotation]},
		{Name: "Acknowledged before", Value: earlier},
		{Name: "Agent frozen now", Value: stateIfKnown(after, v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionFalse)},
	}, factsOf(after)...)
}

// joinFacts is what to know of what an agent starts with.
func joinFacts(result *joining.Result, server joining.Server) []cmdutil.Fact {
	secret, account := "", ""
	if result.Cluster.Spec.Credential == v1alpha1.CredentialServiceAccountToken {
		account = result.Cluster.Name + "/" + v1alpha1.AgentServiceAccount
	} else {
		id, _, _ := strings.Cut(result.Token, ".")
		object := joining.Token{ID: id}.Object(result.Cluster.Name)
		secret = object.Namespace + "/" + object.Name
	}
	return append([]cmdutil.Fact{
		{Name: "Token's Secret", Value: secret},
		{Name: "Token's ServiceAccount", Value: account},
		{Name: "Token's expiry", Value: result.Expires.UTC().Format(time.RFC3339)},
		{Name: "Hub", Value: server.URL},
		{Name: "Hub's name in TLS", Value: server.TLSName},
		{Name: "Hub's CA", Value: authorityName(server.CA)},
		{Name: "Acceptance", Value: formatAcceptance(result.Cluster)},
	}, factsOf(result.Cluster)...)
}

// authorityName names the certificates that the agent trusts the hub by, as "openssl x509 -fingerprint -sha256" does.
func authorityName(ca []byte) string {
	if len(ca) == 0 {
		return "one that the agent's system trusts"
	}
	certificates, err := cert.ParseCertsPEM(ca)
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	var names []string
	for _, certificate := range certificates {
		names = append(names, "sha256 "+fingerprintOf(certificate))
	}
	return strings.Join(names, ", ")
}

func fingerprintOf(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}

// NewCommand returns "cluster".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "cluster", Aliases: []string{"clusters"}, Short: "List clusters, let them join, accept, deny, acknowledge and remove them",
	}, newList(hub), newJoin(hub), newAccept(hub), newDeny(hub), newAcknowledge(hub), newRemove(hub), newRemoveFinalizers(hub))
}

// getCluster reads a Cluster. One that does not exist is an error that says what to do.
func getCluster(ctx context.Context, c client.Client, name string) (*v1alpha1.Cluster, error) {
	cluster := &v1alpha1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, cmdutil.NotFound("cluster %s does not exist: see kubectl hollow cluster list%s", name, cmdutil.DidYouMean(name, clusterNames(ctx, c)))
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	return cluster, nil
}

// clusterNames are those of all Clusters; none if they cannot be listed, for they are wanted for a suggestion only.
func clusterNames(ctx context.Context, c client.Client) []string {
	list := &v1alpha1.ClusterList{}
	if err := c.List(ctx, list); err != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
