package cluster

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// accessObjects are all that gives access to cluster.
func accessObjects(cluster string) map[client.Object]client.ObjectKey {
	return map[client.Object]client.ObjectKey{
		&rbacv1.RoleBinding{}:        {Namespace: cluster, Name: AgentRole},
		&rbacv1.ClusterRoleBinding{}: {Name: RoleName(cluster)},
		&rbacv1.ClusterRole{}:        {Name: RoleName(cluster)},
		// The same kinds once more, so that they are other keys of the map.
		&rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{Kind: "ClusterRoleBinding"}}: {Name: JoinRoleName(cluster)},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{Kind: "ClusterRole"}}:               {Name: JoinRoleName(cluster)},
	}
}

func (f *env) expectNoAccess() {
	f.T.Helper()
	for object, key := range accessObjects(f.cluster.Name) {
		f.Expect(apierrors.IsNotFound(f.get(object, key.Namespace, key.Name))).To(BeTrue(), "%T %s", object, key)
	}
}

// Claim: An accepted Cluster gets namespace and access; a denied one loses access only. Broken: acceptance not asked for.
func TestDeniedClusterLosesAccessAndNothingElse(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	machine := f.machine("m")
	f.Events()
	f.accept(v1alpha1.AcceptanceDenied)
	f.ExpectReconciled(f.cluster)
	f.expectNoAccess()
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition).Reason).To(Equal(v1alpha1.ReasonDenied))
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.FrozenCondition)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonDenied)))
	f.Expect(f.Events()).To(ContainElements(
		And(HavePrefix("Normal AccessRevoked"), ContainSubstring("it is denied")), HavePrefix("Warning "+v1alpha1.ReasonDenied)))
	f.untouched(machine)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.Events()).To(BeEmpty(), "it is told once")
	f.accept(v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.ReadCondition(f.cluster, v1alpha1.FrozenCondition).Status).To(Equal(metav1.ConditionFalse))
	for object, key := range accessObjects(f.cluster.Name) {
		f.Expect(f.get(object, key.Namespace, key.Name)).To(Succeed(), "%T %s", object, key)
	}
}

// A namespace that cannot be read must not keep a denied cluster's access.
func TestDenialWaitsForNothing(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.accept(v1alpha1.AcceptanceDenied)
	f.logic.Client = interceptor.NewClient(f.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if object.GetObjectKind().GroupVersionKind().Kind == "Namespace" {
				return errors.New("injected")
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	_, err := f.Runner.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.cluster)})
	f.Expect(err).To(MatchError(ContainSubstring("injected")))
	f.expectNoAccess()
}

func TestPolicyAutoAcceptsUnlessDenied(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptancePending)
	f.refresh().Spec.AcceptancePolicy = v1alpha1.AcceptanceAuto
	f.ExpectApplied(f.cluster)
	f.ExpectReconciled(f.cluster)
	accepted := f.ReadCondition(f.cluster, v1alpha1.ClusterAcceptedCondition)
	f.Expect(accepted.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(accepted.Message).To(ContainSubstring("Auto"))
	f.Expect(f.get(&rbacv1.RoleBinding{}, f.cluster.Name, AgentRole)).To(Succeed())
	f.accept(v1alpha1.AcceptanceDenied)
	f.ExpectReconciled(f.cluster)
	f.expectNoAccess()
}

func TestServiceAccountIsMadeAfterAcceptanceAndBound(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptancePending)
	f.refresh().Spec.Credential = v1alpha1.CredentialServiceAccountToken
	f.ExpectApplied(f.cluster)
	name := f.cluster.Name
	account := &corev1.ServiceAccount{}
	f.ExpectReconciled(f.cluster)
	f.Expect(apierrors.IsNotFound(f.get(account, name, v1alpha1.AgentServiceAccount))).To(BeTrue())
	f.accept(v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.get(account, name, v1alpha1.AgentServiceAccount)).To(Succeed())
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: name, Name: v1alpha1.AgentServiceAccount}
	local, global := &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{}
	f.Expect(f.get(local, name, AgentRole)).To(Succeed())
	f.Expect(f.get(global, "", RoleName(name))).To(Succeed())
	f.Expect(local.Subjects).To(ContainElement(subject))
	f.Expect(global.Subjects).To(ContainElement(subject))

	f.accept(v1alpha1.AcceptanceDenied)
	f.ExpectReconciled(f.cluster)
	f.expectNoAccess()
	f.Expect(f.get(account, name, v1alpha1.AgentServiceAccount)).To(Succeed(), "its tokens are good again after another acceptance")

	f.accept(v1alpha1.AcceptanceAccepted)
	f.refresh().Spec.Credential = v1alpha1.CredentialCertificate
	f.ExpectApplied(f.cluster)
	f.Events()
	f.ExpectReconciled(f.cluster)
	f.Expect(apierrors.IsNotFound(f.get(account, name, v1alpha1.AgentServiceAccount))).To(BeTrue(), "tokens are its credential no longer")
	f.Expect(f.get(local, name, AgentRole)).To(Succeed())
	f.Expect(local.Subjects).NotTo(ContainElement(subject))
	f.Expect(f.Events()).NotTo(ContainElement(ContainSubstring("AccessRevoked")))
}

// The hub's reads may be behind its writes: a Cluster that is removed right after it was accepted must not leave its
// access behind.
func TestRemovalDoesNotTrustTheCache(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	f.ExpectDeleted(f.cluster)
	f.logic.Client = interceptor.NewClient(f.Client, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewNotFound(rbacv1.Resource("stale"), key.Name)
		},
	})
	f.ExpectReconciled(f.cluster)
	f.expectNoAccess()
}

func TestWhatTheHubDidNotMakeIsNotRemoved(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	name := f.cluster.Name
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	theirs := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: AgentRole}, RoleRef: roleRef("view")}
	f.ExpectApplied(theirs)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: v1alpha1.AgentServiceAccount}}
	f.ExpectApplied(account)
	f.ExpectReconciled(f.cluster)
	f.accept(v1alpha1.AcceptanceDenied)
	f.ExpectReconciled(f.cluster)
	f.ExpectDeleted(f.cluster)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.get(theirs, name, AgentRole)).To(Succeed())
	f.Expect(f.get(account, name, v1alpha1.AgentServiceAccount)).To(Succeed())
}

func TestDriftedAccessIsRepaired(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	name := f.cluster.Name
	role := &rbacv1.ClusterRole{}
	f.Expect(f.get(role, "", RoleName(name))).To(Succeed())
	role.Rules[0].ResourceNames = []string{"another"}
	f.ExpectApplied(role)
	binding := &rbacv1.RoleBinding{}
	f.Expect(f.get(binding, name, AgentRole)).To(Succeed())
	f.ExpectDeleted(binding)
	binding.ObjectMeta = metav1.ObjectMeta{Namespace: name, Name: AgentRole}
	binding.RoleRef.Name = "view"
	joining := &rbacv1.ClusterRoleBinding{}
	f.Expect(f.get(joining, "", JoinRoleName(name))).To(Succeed())
	joining.Subjects = append(joining.Subjects, groupSubject("system:authenticated"))
	joining.OwnerReferences = nil
	f.ExpectApplied(joining)
	f.ExpectApplied(binding)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.get(role, "", RoleName(name))).To(Succeed())
	f.Expect(role.Rules).To(Equal(agentRules(name, nil)))
	f.Expect(f.get(binding, name, AgentRole)).To(Succeed())
	f.Expect(binding.RoleRef.Name).To(Equal(AgentRole))
	f.Expect(binding.Subjects).To(ConsistOf(HaveField("Name", v1alpha1.AgentGroupPrefix+name)))
	f.Expect(f.get(joining, "", JoinRoleName(name))).To(Succeed())
	f.Expect(joining.Subjects).To(ConsistOf(groupSubject(v1alpha1.JoinGroupPrefix + name)))
	f.Expect(joining.OwnerReferences).To(ConsistOf(HaveField("UID", f.cluster.UID)))
}

// The policy for agents lets one create only requests that it may read, so these names are all that it may ask for.
// Claim: A host's agent may read only requests for what it hosts. Broken: those of other namespaces are listed too; one that is gone stays.
func TestAHostMayReadTheRequestsOfWhatItHosts(t *testing.T) {
	f := newEnv(t, v1alpha1.AcceptanceAccepted)
	f.ExpectReconciled(f.cluster)
	name := f.cluster.Name
	requests := func() (names []string) {
		f.ExpectReconciled(f.cluster)
		role := &rbacv1.ClusterRole{}
		f.Expect(f.get(role, "", RoleName(name))).To(Succeed())
		for _, rule := range role.Rules {
			if rule.Resources[0] == "certificatesigningrequests" && rule.Verbs[0] != "create" {
				f.Expect(rule.Verbs).To(ConsistOf("get", "delete"))
				names = append(names, rule.ResourceNames...)
			}
		}
		return names
	}
	own := "hollowfleet-agent-" + name
	f.Expect(requests()).To(ConsistOf(own))
	first, second := f.simulated(name, "b"), f.simulated(name, "a")
	f.ExpectApplied(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name + "x"}})
	f.simulated(name+"x", "c")
	f.Expect(requests()).To(Equal([]string{own, own + ".a", own + ".b"}))
	f.Writes.Total() // Counts from here on.
	f.Expect(requests()).To(HaveLen(3))
	f.Expect(f.Writes.Total()).To(BeZero(), "nothing is written again")
	f.ExpectDeleted(first)
	f.Expect(requests()).To(Equal([]string{own, own + ".a"}))

	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.SimulatedClusterAnnotation+`":"host/1"}}}`))
	f.Expect(f.Client.Patch(t.Context(), f.refresh(), patch)).To(Succeed())
	f.Expect(requests()).To(ConsistOf(own), "one that is simulated itself hosts none")
	f.ExpectDeleted(second)
}

func (f *env) simulated(namespace, name string) *v1alpha1.SimulatedCluster {
	f.T.Helper()
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	f.ExpectApplied(one)
	return one
}

func TestAHostIsWokenByTheNamesOfWhatItHosts(t *testing.T) {
	g := NewWithT(t)
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	g.Expect(hostOf(t.Context(), one)).To(ConsistOf(reconcile.Request{NamespacedName: client.ObjectKey{Name: "a"}}))
	g.Expect(newOrGone().Create(event.CreateEvent{Object: one})).To(BeTrue())
	g.Expect(newOrGone().Delete(event.DeleteEvent{Object: one})).To(BeTrue())
	g.Expect(newOrGone().Update(event.UpdateEvent{ObjectOld: one, ObjectNew: one})).To(BeFalse())
}
