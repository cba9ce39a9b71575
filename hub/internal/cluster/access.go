package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

// AgentRole is the ClusterRole that an agent has in its namespace, and the name of the RoleBinding there.
const AgentRole = "hollowfleet-agent"

// RoleName is the name of the ClusterRole, and of its binding, through which a cluster's agent reads
// and reports on its own Cluster object.
func RoleName(cluster string) string { return "hollowfleet:cluster:" + cluster }

// JoinRoleName is the name of the ClusterRole, and of its binding, through which a client with a join token of
// the cluster asks for its agent's certificate.
func JoinRoleName(cluster string) string { return "hollowfleet:join:" + cluster }

// access is what the identities of a cluster are given on the hub.
type access struct {
	// join: holders of its join token may ask for a certificate.
	join bool
	// agent: its agent may work.
	agent bool
	// account: a ServiceAccount is an identity of its agent too.
	account bool
}

// accessOf decides on the access of a cluster whose namespace is as given. A denied cluster has none. A
// ServiceAccount without bindings stays: its tokens are good again when the cluster is accepted again, just like
// certificates.
func accessOf(cluster *v1alpha1.Cluster, namespace namespaceState) access {
	if cluster.DeletionTimestamp != nil {
		return access{}
	}
	return access{
		join:    cluster.Spec.Acceptance != v1alpha1.AcceptanceDenied,
		agent:   cluster.Accepted() && namespace == namespaceReady,
		account: usesTokens(cluster),
	}
}

// usesTokens reports whether the cluster's agent uses tokens of a ServiceAccount.
func usesTokens(cluster *v1alpha1.Cluster) bool {
	return cluster.Spec.Credential == v1alpha1.CredentialServiceAccountToken
}

// agentRules are what an agent may do outside its namespace: look at its own Cluster, report on it, renew its
// certificate, and ask for the first one of each agent of the simulated clusters that it hosts. The admission policy lets it
// create no request that it may not read here.
func agentRules(cluster string, hosted []string) []rbacv1.PolicyRule {
	status := rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters/status"},
		ResourceNames: []string{cluster}, Verbs: []string{"get", "patch"},
	}
	rules := append(joinRules(cluster), status)
	if len(hosted) == 0 {
		return rules
	}
	requests := rbacv1.PolicyRule{
		APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"get", "delete"},
	}
	for _, name := range hosted {
		requests.ResourceNames = append(requests.ResourceNames, certrequest.NameOfHostedAgent(cluster, name))
	}
	return append(rules, requests)
}

// listHosted returns the names of the simulated clusters that cluster hosts, also of those that are being removed. One that is
// simulated itself hosts none.
func (c *Controller) listHosted(ctx context.Context, cluster *v1alpha1.Cluster) ([]string, error) {
	if cluster.IsSimulated() {
		return nil, nil
	}
	list := &v1alpha1.SimulatedClusterList{}
	if err := c.Client.List(ctx, list, client.InNamespace(cluster.Name), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the simulated clusters that Cluster %s hosts: %w", cluster.Name, err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

// joinRules are what a join token is good for: to look at its own Cluster, and to ask for one certificate. RBAC
// cannot bind create to a name; the ValidatingAdmissionPolicy hollowfleet-agents does. The request is not to be watched:
// such a watch would continue when the cluster has been denied, and nothing could end it.
func joinRules(cluster string) []rbacv1.PolicyRule {
	requests := []string{"certificatesigningrequests"}
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"},
			ResourceNames: []string{cluster}, Verbs: []string{"get", "list", "watch"},
		},
		{APIGroups: []string{certificatesv1.GroupName}, Resources: requests, Verbs: []string{"create"}},
		{
			APIGroups: []string{certificatesv1.GroupName}, Resources: requests,
			ResourceNames: []string{certrequest.NameOfAgent(cluster)}, Verbs: []string{"get", "delete"},
		},
	}
}

func groupSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

// agentSubjects are the identities of a cluster's agent.
func agentSubjects(cluster string, a access) []rbacv1.Subject {
	subjects := []rbacv1.Subject{groupSubject(v1alpha1.AgentGroupPrefix + cluster)}
	if a.account {
		subjects = append(subjects, rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: cluster, Name: v1alpha1.AgentServiceAccount,
		})
	}
	return subjects
}

func roleRef(role string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
}

func labelsOf(cluster string) map[string]string {
	return map[string]string{v1alpha1.ClusterNameLabel: cluster, v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub}
}

// isLabeledFor reports whether the hub made object for the cluster of that name.
func isLabeledFor(object client.Object, cluster string) bool {
	labels := maps.Clone(object.GetLabels())
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return key != v1alpha1.ClusterNameLabel && key != v1alpha1.ManagedByLabel
	})
	return maps.Equal(labels, labelsOf(cluster))
}

// isMarkedFor reports whether object has the marks that the hub gives it: its labels, and cluster as an owner. Owned
// access goes with its Cluster even if a user takes the hub's finalizer off.
func isMarkedFor(object client.Object, cluster *v1alpha1.Cluster) bool {
	for _, owner := range object.GetOwnerReferences() {
		if owner.UID == cluster.UID {
			return isLabeledFor(object, cluster.Name)
		}
	}
	return false
}

func ownerOf(cluster *v1alpha1.Cluster) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}
}

// namespaceState is what was found of a cluster's namespace.
type namespaceState int

const (
	namespaceUnknown  namespaceState = iota // It could not be read or made.
	namespaceNone                           // There is none, and none is to be.
	namespaceReady                          // It is the hub's.
	namespaceForeign                        // Another client made it.
	namespaceDeleting                       // It is being deleted.
)

// ensureNamespace makes the namespace of an accepted cluster. It never takes over one that the hub did not make.
func (c *Controller) ensureNamespace(ctx context.Context, cluster *v1alpha1.Cluster) (namespaceState, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := c.Client.Get(ctx, client.ObjectKey{Name: cluster.Name}, namespace)
	switch {
	case apierrors.IsNotFound(err) && cluster.Accepted():
		return c.createNamespace(ctx, cluster)
	case apierrors.IsNotFound(err):
		return namespaceNone, nil
	case err != nil:
		return namespaceUnknown, fmt.Errorf("getting namespace %s: %w", cluster.Name, err)
	case !isLabeledFor(namespace, cluster.Name):
		return namespaceForeign, nil
	case namespace.DeletionTimestamp != nil:
		return namespaceDeleting, nil
	}
	return namespaceReady, nil
}

func (c *Controller) createNamespace(ctx context.Context, cluster *v1alpha1.Cluster) (namespaceState, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name, Labels: labelsOf(cluster.Name)}}
	if proof, simulated := cluster.Annotations[v1alpha1.SimulatedClusterAnnotation]; simulated {
		namespace.Annotations = map[string]string{v1alpha1.SimulatedClusterAnnotation: proof} // It goes with its SimulatedCluster.
	}
	if err := c.Client.Create(ctx, namespace); apierrors.IsAlreadyExists(err) {
		return namespaceUnknown, nil // The cache will show whose it is, and wake us.
	} else if err != nil {
		return namespaceUnknown, fmt.Errorf("creating namespace %s: %w", cluster.Name, err)
	}
	namespaceCreatedEvent(cluster.Name).Send(c.Recorder, cluster)
	return namespaceReady, nil
}
