package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// fieldManager owns what the hub applies.
const fieldManager = "hollowfleet-hub"

// admitCluster makes namespace and access match cluster's acceptance. A denied cluster loses its access whatever becomes
// of the rest.
func (c *Controller) admitCluster(ctx context.Context, cluster *v1alpha1.Cluster) (namespaceState, error) {
	if cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied {
		revokeErr := c.withdrawAccess(ctx, c.Client, cluster, access{account: usesTokens(cluster)}, namespaceUnknown)
		state, err := c.ensureNamespace(ctx, cluster)
		return state, errors.Join(revokeErr, err)
	}
	state, err := c.ensureNamespace(ctx, cluster)
	if err != nil {
		return state, err
	}
	wanted := accessOf(cluster, state)
	if err := c.withdrawAccess(ctx, c.Client, cluster, wanted, state); err != nil {
		return state, err
	}
	return state, c.grantAccess(ctx, cluster, wanted)
}

// grantAccess gives the access that is wanted. What is there already is not written again.
func (c *Controller) grantAccess(ctx context.Context, cluster *v1alpha1.Cluster, wanted access) error {
	name := cluster.Name
	if wanted.join {
		subjects := []rbacv1.Subject{groupSubject(v1alpha1.JoinGroupPrefix + name)}
		if err := c.keepClusterRole(ctx, cluster, JoinRoleName(name), joinRules(name), subjects); err != nil {
			return err
		}
	}
	if !wanted.agent {
		return nil
	}
	if wanted.account {
		if err := c.keepServiceAccount(ctx, cluster); err != nil {
			return err
		}
	}
	hosted, err := c.listHosted(ctx, cluster)
	if err != nil {
		return err
	}
	subjects := agentSubjects(name, wanted)
	if err := c.keepClusterRole(ctx, cluster, RoleName(name), agentRules(name, hosted), subjects); err != nil {
		return err
	}
	return c.keepRoleBinding(ctx, cluster, subjects)
}

// withdrawAccess takes away what is not wanted, as reader knows it: bindings before roles, because they give the access. The
// event about it names the state of the namespace if that is the cause.
func (c *Controller) withdrawAccess(ctx context.Context, reader client.Reader, cluster *v1alpha1.Cluster, wanted access, namespace namespaceState) error {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	inside := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: cluster.Name, Name: name} }
	revoked := false
	for _, unwanted := range []struct {
		keep   bool
		object client.Object
	}{
		{wanted.agent, &rbacv1.RoleBinding{ObjectMeta: inside(AgentRole)}},
		{wanted.agent, &rbacv1.ClusterRoleBinding{ObjectMeta: named(RoleName(cluster.Name))}},
		{wanted.join, &rbacv1.ClusterRoleBinding{ObjectMeta: named(JoinRoleName(cluster.Name))}},
		{wanted.agent, &rbacv1.ClusterRole{ObjectMeta: named(RoleName(cluster.Name))}},
		{wanted.join, &rbacv1.ClusterRole{ObjectMeta: named(JoinRoleName(cluster.Name))}},
		{wanted.account, &corev1.ServiceAccount{ObjectMeta: inside(v1alpha1.AgentServiceAccount)}},
	} {
		if unwanted.keep {
			continue
		}
		key := client.ObjectKeyFromObject(unwanted.object)
		err := reader.Get(ctx, key, unwanted.object)
		if err == nil && isLabeledFor(unwanted.object, cluster.Name) {
			err = c.Client.Delete(ctx, unwanted.object)
			revoked = revoked || err == nil && !wanted.agent
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing %T %s: %w", unwanted.object, key, err)
		}
	}
	if revoked {
		accessRevokedEvent(cluster, namespace).Send(c.Recorder, cluster)
	}
	return nil
}

// keepClusterRole keeps a ClusterRole and its binding of the same name.
func (c *Controller) keepClusterRole(ctx context.Context, cluster *v1alpha1.Cluster, name string, rules []rbacv1.PolicyRule, subjects []rbacv1.Subject) error {
	role := &rbacv1.ClusterRole{}
	if err := c.getIfThere(ctx, client.ObjectKey{Name: name}, role); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(role.Rules, rules) || !isMarkedFor(role, cluster) {
		wanted := rbacv1ac.ClusterRole(name).WithLabels(labelsOf(cluster.Name)).WithOwnerReferences(ownerReference(cluster))
		for _, rule := range rules {
			wanted.WithRules(rbacv1ac.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
				WithResourceNames(rule.ResourceNames...).WithVerbs(rule.Verbs...))
		}
		if err := c.applyObject(ctx, wanted); err != nil {
			return fmt.Errorf("applying ClusterRole %s: %w", name, err)
		}
	}
	binding := &rbacv1.ClusterRoleBinding{}
	if err := c.getIfThere(ctx, client.ObjectKey{Name: name}, binding); err != nil {
		return err
	}
	if isBound(binding.RoleRef, name, binding.Subjects, subjects) && isMarkedFor(binding, cluster) {
		return nil
	}
	wanted := rbacv1ac.ClusterRoleBinding(name).WithLabels(labelsOf(cluster.Name)).WithOwnerReferences(ownerReference(cluster)).
		WithRoleRef(roleReference(name)).WithSubjects(applySubjects(subjects)...)
	if err := c.applyBinding(ctx, binding, binding.RoleRef, name, wanted); err != nil {
		return fmt.Errorf("applying ClusterRoleBinding %s: %w", name, err)
	}
	return nil
}

func (c *Controller) keepRoleBinding(ctx context.Context, cluster *v1alpha1.Cluster, subjects []rbacv1.Subject) error {
	binding := &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: cluster.Name, Name: AgentRole}
	if err := c.getIfThere(ctx, key, binding); err != nil {
		return err
	}
	if isBound(binding.RoleRef, AgentRole, binding.Subjects, subjects) && isMarkedFor(binding, cluster) {
		return nil
	}
	wanted := rbacv1ac.RoleBinding(AgentRole, cluster.Name).WithLabels(labelsOf(cluster.Name)).WithOwnerReferences(ownerReference(cluster)).
		WithRoleRef(roleReference(AgentRole)).WithSubjects(applySubjects(subjects)...)
	if err := c.applyBinding(ctx, binding, binding.RoleRef, AgentRole, wanted); err != nil {
		return fmt.Errorf("applying RoleBinding %s: %w", key, err)
	}
	return nil
}

func (c *Controller) keepServiceAccount(ctx context.Context, cluster *v1alpha1.Cluster) error {
	account := &corev1.ServiceAccount{}
	key := client.ObjectKey{Namespace: cluster.Name, Name: v1alpha1.AgentServiceAccount}
	if err := c.getIfThere(ctx, key, account); err != nil {
		return err
	}
	if isMarkedFor(account, cluster) {
		return nil
	}
	wanted := corev1ac.ServiceAccount(key.Name, key.Namespace).WithLabels(labelsOf(cluster.Name)).WithOwnerReferences(ownerReference(cluster))
	if err := c.applyObject(ctx, wanted); err != nil {
		return fmt.Errorf("applying ServiceAccount %s: %w", key, err)
	}
	return nil
}

// lacksRole reports whether the ClusterRole does not exist to which the hub binds agents: they can do nothing then. Charts make it, so the
// cache, which holds only what the hub made, does not have it.
func (c *Controller) lacksRole(ctx context.Context) (bool, error) {
	err := c.Live.Get(ctx, client.ObjectKey{Name: AgentRole}, &rbacv1.ClusterRole{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("getting ClusterRole %s: %w", AgentRole, err)
	}
	return err != nil, nil
}

// getIfThere leaves object empty if there is none.
func (c *Controller) getIfThere(ctx context.Context, key client.ObjectKey, object client.Object) error {
	if err := c.Client.Get(ctx, key, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting %T %s: %w", object, key, err)
	}
	return nil
}

// applyBinding applies a binding; one to another role has to go first, because the role cannot be changed.
func (c *Controller) applyBinding(ctx context.Context, existing client.Object, ref rbacv1.RoleRef, role string, wanted runtime.ApplyConfiguration) error {
	if existing.GetName() != "" && ref != roleRef(role) {
		if err := c.Client.Delete(ctx, existing); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return c.applyObject(ctx, wanted)
}

func (c *Controller) applyObject(ctx context.Context, wanted runtime.ApplyConfiguration) error {
	return c.Client.Apply(ctx, wanted, client.FieldOwner(fieldManager), client.ForceOwnership)
}

func isBound(ref rbacv1.RoleRef, role string, subjects, wanted []rbacv1.Subject) bool {
	return ref == roleRef(role) && equality.Semantic.DeepEqual(subjects, wanted)
}

func roleReference(role string) *rbacv1ac.RoleRefApplyConfiguration {
	ref := roleRef(role)
	return rbacv1ac.RoleRef().WithAPIGroup(ref.APIGroup).WithKind(ref.Kind).WithName(ref.Name)
}

func applySubjects(subjects []rbacv1.Subject) []*rbacv1ac.SubjectApplyConfiguration {
	var wanted []*rbacv1ac.SubjectApplyConfiguration
	for _, subject := range subjects {
		one := rbacv1ac.Subject().WithKind(subject.Kind).WithName(subject.Name)
		if subject.APIGroup != "" {
			one.WithAPIGroup(subject.APIGroup)
		}
		if subject.Namespace != "" {
			one.WithNamespace(subject.Namespace)
		}
		wanted = append(wanted, one)
	}
	return wanted
}

func ownerReference(cluster *v1alpha1.Cluster) *metav1ac.OwnerReferenceApplyConfiguration {
	ref := ownerOf(cluster)
	return metav1ac.OwnerReference().WithAPIVersion(ref.APIVersion).WithKind(ref.Kind).WithName(ref.Name).WithUID(ref.UID)
}
