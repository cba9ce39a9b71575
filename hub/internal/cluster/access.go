package cluster

import (
	"context"
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// AgentRole is the ClusterRole that an agent has in its namespace, and the name of the RoleBinding there.
	AgentRole = "hollowfleet-agent"
	// fieldManager owns what the hub applies.
	fieldManager = "hollowfleet-hub"
)

// namespaceState is what admit found of a cluster's namespace.
type namespaceState int

const (
	namespaceUnknown  namespaceState = iota // It could not be read or made.
	namespaceNone                           // There is none, and none is to be.
	namespaceReady                          // It is the hub's.
	namespaceForeign                        // Somebody else made it.
	namespaceDeleting                       // It is being deleted.
)

// RoleName is the name of the ClusterRole, and of its binding, through which a cluster's agent reads
// and reports on its own Cluster object.
func RoleName(cluster string) string { return "hollowfleet:cluster:" + cluster }

// admit makes namespace and access match cluster's acceptance.
func (c *Controller) admit(ctx context.Context, cluster *v1alpha1.Cluster) (namespaceState, error) {
	state, err := c.ensureNamespace(ctx, cluster)
	if err != nil {
		return state, err
	}
	if cluster.Spec.Acceptance != v1alpha1.AcceptanceAccepted || state != namespaceReady {
		return state, c.revoke(ctx, cluster.Name, false)
	}
	return state, c.grant(ctx, cluster.Name)
}

// ensureNamespace makes the namespace of an accepted cluster. It never takes over one that the hub did not make.
func (c *Controller) ensureNamespace(ctx context.Context, cluster *v1alpha1.Cluster) (namespaceState, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := c.Client.Get(ctx, client.ObjectKey{Name: cluster.Name}, namespace)
	switch {
	case apierrors.IsNotFound(err) && cluster.Spec.Acceptance == v1alpha1.AcceptanceAccepted:
		return c.createNamespace(ctx, cluster)
	case apierrors.IsNotFound(err):
		return namespaceNone, nil
	case err != nil:
		return namespaceUnknown, fmt.Errorf("getting namespace %s: %w", cluster.Name, err)
	case namespace.Labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByHub || namespace.Labels[v1alpha1.ClusterNameLabel] != cluster.Name:
		return namespaceForeign, nil
	case namespace.DeletionTimestamp != nil:
		return namespaceDeleting, nil
	}
	return namespaceReady, nil
}

func (c *Controller) createNamespace(ctx context.Context, cluster *v1alpha1.Cluster) (namespaceState, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name, Labels: labelsOf(cluster.Name)}}
	if err := c.Client.Create(ctx, namespace); apierrors.IsAlreadyExists(err) {
		return namespaceUnknown, nil // The cache will show whose it is, and wake us.
	} else if err != nil {
		return namespaceUnknown, fmt.Errorf("creating namespace %s: %w", cluster.Name, err)
	}
	emit(c.Recorder, cluster, namespaceCreatedEvent(cluster.Name))
	return namespaceReady, nil
}

func labelsOf(cluster string) map[string]string {
	return map[string]string{v1alpha1.ClusterNameLabel: cluster, v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub}
}

// rules are what an agent may do outside its namespace: look at its own Cluster and report on it.
func rules(cluster string) []rbacv1.PolicyRule {
	group := []string{v1alpha1.GroupVersion.Group}
	name := []string{cluster}
	return []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"clusters"}, ResourceNames: name, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: group, Resources: []string{"clusters/status"}, ResourceNames: name, Verbs: []string{"get", "patch"}},
	}
}

// grant gives the agent its access. What is there already is not written again.
func (c *Controller) grant(ctx context.Context, cluster string) error {
	name := RoleName(cluster)
	role := &rbacv1.ClusterRole{}
	if err := c.get(ctx, client.ObjectKey{Name: name}, role); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(role.Rules, rules(cluster)) || !labeled(role, cluster) {
		if err := c.apply(ctx, clusterRole(cluster)); err != nil {
			return fmt.Errorf("applying ClusterRole %s: %w", name, err)
		}
	}
	global := &rbacv1.ClusterRoleBinding{}
	if err := c.get(ctx, client.ObjectKey{Name: name}, global); err != nil {
		return err
	}
	if !bound(global.RoleRef, global.Subjects, name, cluster) || !labeled(global, cluster) {
		if err := c.rebind(ctx, global, global.RoleRef, name, clusterRoleBinding(cluster)); err != nil {
			return fmt.Errorf("applying ClusterRoleBinding %s: %w", name, err)
		}
	}
	local := &rbacv1.RoleBinding{}
	if err := c.get(ctx, client.ObjectKey{Namespace: cluster, Name: AgentRole}, local); err != nil {
		return err
	}
	if !bound(local.RoleRef, local.Subjects, AgentRole, cluster) || !labeled(local, cluster) {
		if err := c.rebind(ctx, local, local.RoleRef, AgentRole, roleBinding(cluster)); err != nil {
			return fmt.Errorf("applying RoleBinding %s/%s: %w", cluster, AgentRole, err)
		}
	}
	return nil
}

// get leaves object empty if there is none.
func (c *Controller) get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	if err := c.Client.Get(ctx, key, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting %T %s: %w", object, key, err)
	}
	return nil
}

// rebind applies a binding; one to another role has to go first, because the role cannot be changed.
func (c *Controller) rebind(ctx context.Context, existing client.Object, ref rbacv1.RoleRef, role string, wanted runtime.ApplyConfiguration) error {
	if existing.GetName() != "" && (ref.Name != role || ref.Kind != "ClusterRole") {
		if err := c.Client.Delete(ctx, existing); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return c.apply(ctx, wanted)
}

func (c *Controller) apply(ctx context.Context, wanted runtime.ApplyConfiguration) error {
	return c.Client.Apply(ctx, wanted, client.FieldOwner(fieldManager), client.ForceOwnership)
}

// revoke takes the bindings away, and with all the agent's ClusterRole too.
func (c *Controller) revoke(ctx context.Context, cluster string, all bool) error {
	name := RoleName(cluster)
	remove := []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: AgentRole}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}},
	}
	if all {
		remove = append(remove, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, object := range remove {
		key := client.ObjectKeyFromObject(object)
		err := c.Client.Get(ctx, key, object)
		if err == nil && labeled(object, cluster) {
			err = c.Client.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing %T %s: %w", object, key, err)
		}
	}
	return nil
}

// labeled tells whether the hub made object for cluster.
func labeled(object client.Object, cluster string) bool {
	labels := maps.Clone(object.GetLabels())
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return key != v1alpha1.ClusterNameLabel && key != v1alpha1.ManagedByLabel
	})
	return maps.Equal(labels, labelsOf(cluster))
}

func bound(ref rbacv1.RoleRef, subjects []rbacv1.Subject, role, cluster string) bool {
	return ref.Kind == "ClusterRole" && ref.Name == role && len(subjects) == 1 &&
		subjects[0].Kind == rbacv1.GroupKind && subjects[0].Name == v1alpha1.AgentGroupPrefix+cluster
}

func clusterRole(cluster string) *rbacv1ac.ClusterRoleApplyConfiguration {
	wanted := rbacv1ac.ClusterRole(RoleName(cluster)).WithLabels(labelsOf(cluster))
	for _, rule := range rules(cluster) {
		wanted.WithRules(rbacv1ac.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
			WithResourceNames(rule.ResourceNames...).WithVerbs(rule.Verbs...))
	}
	return wanted
}

func clusterRoleBinding(cluster string) *rbacv1ac.ClusterRoleBindingApplyConfiguration {
	return rbacv1ac.ClusterRoleBinding(RoleName(cluster)).WithLabels(labelsOf(cluster)).
		WithRoleRef(roleRef(RoleName(cluster))).WithSubjects(agents(cluster))
}

func roleBinding(cluster string) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(AgentRole, cluster).WithLabels(labelsOf(cluster)).
		WithRoleRef(roleRef(AgentRole)).WithSubjects(agents(cluster))
}

func roleRef(role string) *rbacv1ac.RoleRefApplyConfiguration {
	return rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(role)
}

func agents(cluster string) *rbacv1ac.SubjectApplyConfiguration {
	return rbacv1ac.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.GroupKind).WithName(v1alpha1.AgentGroupPrefix + cluster)
}
