package admission_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// simulation is a host's namespace with a SimulatedCluster in it.
type simulation struct {
	*WithT
	t    *testing.T
	host string
	one  *v1alpha1.SimulatedCluster
}

func newSimulation(t *testing.T, policy string) *simulation {
	t.Helper()
	s := &simulation{WithT: NewWithT(t), t: t, host: uniqueName()}
	for _, dir := range []string{"rbac/agent-hub", "rbac/users"} {
		s.Expect(config.Apply(t.Context(), testenv.Server().Client, config.RBAC, dir)).To(Succeed())
	}
	text, err := config.Admission.ReadFile(policy) // The others are left to their own tests.
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(config.Apply(t.Context(), testenv.Server().Client, fstest.MapFS{policy: {Data: text}}, "admission")).To(Succeed())
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.host}})
	s.one = &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.host, Name: "one", Labels: map[string]string{"a": "b"}}}
	s.one.Spec.ClusterMetadata.Labels = map[string]string{"stage": "test"}
	s.create(s.one)
	return s
}

func (s *simulation) create(object client.Object) {
	s.t.Helper()
	s.Expect(testenv.Server().Client.Create(s.t.Context(), object)).To(Succeed())
}

func (s *simulation) as(user string, groups ...string) client.Client {
	s.t.Helper()
	impersonating := rest.CopyConfig(testenv.Server().Config)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(impersonating, client.Options{Scheme: scheme.New(), Mapper: testenv.Server().Client.RESTMapper()})
	s.Expect(err).NotTo(HaveOccurred())
	return c
}

// bind gives the user a role in the host's namespace, or everywhere.
func (s *simulation) bind(user, role string, everywhere bool) {
	s.t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if everywhere {
		s.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: uniqueName()}, RoleRef: ref, Subjects: subjects})
		return
	}
	s.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.host, Name: uniqueName()}, RoleRef: ref, Subjects: subjects})
}

func (s *simulation) role(rules ...rbacv1.PolicyRule) string {
	s.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: uniqueName()}, Rules: rules}
	s.create(role)
	return role.Name
}

// agent is the agent of the host with all that the hub gives it.
func (s *simulation) agent(requests ...string) client.Client {
	s.t.Helper()
	user := v1alpha1.AgentUserPrefix + s.host
	s.bind(user, "hollowfleet-agent", false)
	kind := []string{"certificatesigningrequests"}
	group := []string{"certificates.k8s.io"}
	s.bind(user, s.role(
		rbacv1.PolicyRule{APIGroups: group, Resources: kind, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: group, Resources: kind, ResourceNames: requests, Verbs: []string{"get", "delete"}}), true)
	return s.as(user, v1alpha1.AgentGroupPrefix+s.host)
}

func (s *simulation) patch(c client.Client, status bool, patch string) error {
	object := s.one.DeepCopy()
	if status {
		return c.Status().Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	return c.Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// Claim: An agent writes of a SimulatedCluster its finalizer, one condition and the versions. Broken: any condition; status is not bounded; any finalizer; labels and annotations are not compared.
func TestAnAgentWritesItsPartOfASimulatedCluster(t *testing.T) {
	s := newSimulation(t, "admission/agents.yaml")
	agent := s.agent("none")
	refused := func(says string) OmegaMatcher {
		return And(MatchError(ContainSubstring(says)), Satisfy(apierrors.IsForbidden))
	}
	const labelled = `{"metadata":{"labels":{"x":"y"}}}`
	s.Eventually(func() error { return s.patch(agent, false, labelled) }).WithTimeout(time.Minute).
		Should(refused("an agent changes nothing of a SimulatedCluster but its status and the finalizer hollowfleet.io/simulated-cluster"), "the API server reads the policy")
	condition := func(kind string) string {
		return fmt.Sprintf(`{"type":%q,"status":"True","reason":"Tried","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`, kind)
	}
	found := s.one.Status.Conditions
	s.Expect(found).To(HaveLen(2))
	hubs := condition(v1alpha1.ReadyCondition) + "," + condition(v1alpha1.ReconcilingCondition)
	s.Expect(s.patch(testenv.Server().Client, true, `{"status":{"observedGeneration":1,"conditions":[`+hubs+`]}}`)).To(Succeed())
	for _, right := range []string{
		`{"metadata":{"finalizers":["hollowfleet.io/simulated-cluster"]}}`, `{"metadata":{"finalizers":[]}}`,
	} {
		s.Expect(s.patch(agent, false, right)).To(Succeed(), right)
	}
	for _, right := range []string{
		`{"status":{"versions":{"controlPlane":"v1.36.0"},"conditions":[` + hubs + "," + condition(v1alpha1.ControlPlaneReadyCondition) + `]}}`,
		`{"status":{"versions":null,"conditions":[` + hubs + `]}}`,
	} {
		s.Expect(s.patch(agent, true, right)).To(Succeed(), right)
	}
	for wrong, says := range map[string]string{
		`{"metadata":{"annotations":{"hollowfleet.io/freeze":"x"}}}`:                               "but its status and the finalizer",
		`{"metadata":{"labels":null}}`:                                                             "but its status and the finalizer",
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`: "but its status and the finalizer",
		`{"spec":{"versions":{"controlPlane":"v1.36"}}}`:                                           "but its status and the finalizer",
		// Policy hollowfleet-simulatedclusters refuses it too, and may be the one that answers.
		`{"spec":{"metadata":{"labels":{"stage":"prod"}}}}`:                                    "denied request",
		`{"metadata":{"finalizers":["hollowfleet.io/hub"]}}`:                                   "adds and removes hollowfleet.io/simulated-cluster only",
		`{"metadata":{"finalizers":["example.com/stuck","hollowfleet.io/simulated-cluster"]}}`: "adds and removes hollowfleet.io/simulated-cluster only",
		`{"metadata":{"finalizers":["hollowfleet.io/simulated-cluster"],"labels":{"x":"y"}}}`:  "but its status and the finalizer",
	} {
		s.Expect(s.patch(agent, false, wrong)).To(refused(says), wrong)
	}
	for wrong, says := range map[string]string{
		`{"status":{"observedGeneration":9}}`:                                                           "an agent writes versions and conditions only",
		`{"status":{"machineClasses":["small"]}}`:                                                       "an agent writes versions and conditions only",
		`{"status":{"machineDeployments":["workers"]}}`:                                                 "an agent writes versions and conditions only",
		`{"status":{"observedGeneration":null}}`:                                                        "an agent writes versions and conditions only",
		`{"status":{"conditions":[]}}`:                                                                  "of a SimulatedCluster, an agent writes only ControlPlaneReady",
		`{"status":{"conditions":[` + condition(v1alpha1.ReadyCondition) + `]}}`:                        "an agent writes only ControlPlaneReady",
		`{"status":{"conditions":[` + hubs + "," + condition(v1alpha1.MachinesRemovedCondition) + `]}}`: "an agent writes only ControlPlaneReady",
		`{"status":{"conditions":[` + hubs + "," + condition("TargetReachable") + `]}}`:                 "an agent writes only ControlPlaneReady",
	} {
		s.Expect(s.patch(agent, true, wrong)).To(refused(says), wrong)
	}
	s.Expect(agent.Delete(t.Context(), s.one.DeepCopy())).To(Satisfy(apierrors.IsForbidden))
	s.Expect(agent.Create(t.Context(), &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.host, Name: "two"}})).To(Satisfy(apierrors.IsForbidden))
}

// The hub's approver is asked for nothing that the hub has not let the agent read.
// Claim: A host's agent asks by the names that the hub gave it. Broken: any name with its own as prefix; without the dot; join tokens may too.
func TestAnAgentAsksForWhatItMayRead(t *testing.T) {
	s := newSimulation(t, "admission/agents.yaml")
	own, hosted := certrequest.NameOfAgent(s.host), certrequest.NameOfHostedAgent(s.host, "one")
	longer := own + "x"
	agent := s.agent(own, hosted, longer, longer+".one")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Expect(err).NotTo(HaveOccurred())
	ask := func(c client.Client, name string) error {
		csr, err := certrequest.NewForAgent(name, "one", key, time.Hour)
		s.Expect(err).NotTo(HaveOccurred())
		return c.Create(t.Context(), csr, client.DryRunAll)
	}
	refused := And(MatchError(ContainSubstring("metadata.name: the certificate request of this identity is named "+own)), Satisfy(apierrors.IsForbidden))
	s.Eventually(func() error { return ask(agent, "mine") }).WithTimeout(time.Minute).Should(refused, "the API server reads the policy")
	s.Eventually(func() error { return ask(agent, hosted) }).WithTimeout(time.Minute).Should(Succeed(), "the role counts")
	s.Expect(ask(agent, own)).To(Succeed())
	for _, name := range []string{hosted + "x", own + ".two", own + ".", longer, longer + ".one", certrequest.NameOfAgent("one"), certrequest.NameOfHostedAgent("one", s.host)} {
		s.Expect(ask(agent, name)).To(refused, name)
	}
	joining := "system:bootstrap:abc123"
	s.bind(joining, s.role(rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"}}), true)
	token := s.as(joining, v1alpha1.JoinGroupPrefix+s.host)
	s.Eventually(func() error { return ask(token, own) }).WithTimeout(time.Minute).Should(Succeed(), "the role counts")
	s.Expect(ask(token, hosted)).To(refused)
}

// Claim: A right in a namespace makes no Cluster. Broken: creation is not asked about; labels or Machines may be changed; the right is asked for in the namespace.
func TestASimulatedClusterNeedsARightOfTheWholeHub(t *testing.T) {
	s := newSimulation(t, "admission/simulatedclusters.yaml")
	all := rbacv1.PolicyRule{APIGroups: []string{"hollowfleet.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	s.bind("tenant", s.role(all), false)
	s.bind("operator", "hollowfleet-simulation-editor", true)
	tenant, operator := s.as("tenant"), s.as("operator")
	create := func(c client.Client, of func(*v1alpha1.SimulatedCluster)) error {
		one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.host, Name: uniqueName()}}
		if of != nil {
			of(one)
		}
		return c.Create(t.Context(), one)
	}
	refused := And(MatchError(ContainSubstring(`ask an administrator for the verb "simulate" on "clusters"`)), Satisfy(apierrors.IsForbidden))
	s.Eventually(func() error { return create(tenant, nil) }).WithTimeout(time.Minute).Should(refused, "the API server reads the policy")
	s.Eventually(func() error { return create(operator, nil) }).WithTimeout(time.Minute).Should(Succeed(), "the role counts")
	for _, labels := range []string{`{"stage":"prod"}`, `{"more":"x"}`, `null`} {
		s.Expect(s.patch(tenant, false, `{"spec":{"metadata":{"labels":`+labels+`}}}`)).To(And(refused, MatchError(ContainSubstring("spec.metadata"))), labels)
	}
	s.Expect(s.patch(tenant, false, `{"metadata":{"labels":{"x":"y"},"finalizers":["example.com/x"]},"spec":{"versions":{"controlPlane":"v1.36"}}}`)).To(Succeed())
	s.Expect(s.patch(operator, false, `{"spec":{"metadata":{"labels":{"stage":"prod"}}}}`)).To(Succeed())
	const machines = `{"spec":{"machineDeployments":[{"name":"workers","template":{"spec":{"providerConfig":{"valueRef":{"name":"x"}}}}}]}}`
	const classes = `{"spec":{"machineClasses":[{"name":"small","spec":{"provider":"hollow"}}]}}`
	for _, user := range []client.Client{tenant, operator} {
		s.Expect(s.patch(user, false, classes)).To(And(Satisfy(apierrors.IsInvalid),
			MatchError(ContainSubstring("spec.machineClasses: cannot be changed, because they are created once: change the MachineClasses in namespace one"))))
		s.Expect(s.patch(user, false, machines)).To(And(Satisfy(apierrors.IsInvalid),
			MatchError(ContainSubstring("spec.machineDeployments: cannot be changed, because they are created once: change the MachineDeployments in namespace one"))))
	}
	s.Expect(create(operator, func(one *v1alpha1.SimulatedCluster) {
		one.Spec.MachineDeployments = []v1alpha1.InitialMachineDeployment{{Name: "workers", Template: v1alpha1.MachineTemplate{
			Spec: v1alpha1.MachineTemplateBody{ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "x"}}},
		}}}
	})).To(Succeed())
	s.Expect(tenant.Delete(t.Context(), s.one.DeepCopy())).To(Succeed(), "to remove one is a right of its namespace")
	s.Expect(s.patch(tenant, false, `{"metadata":{"finalizers":null}}`)).To(Succeed())

	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: uniqueName()}}
	set.Spec.Replicas = new(int32(0))
	s.Expect(tenant.Create(t.Context(), set.DeepCopy())).To(Satisfy(apierrors.IsForbidden))
	s.Expect(operator.Create(t.Context(), set)).To(Succeed())
	s.Expect(operator.Create(t.Context(), cluster(uniqueName()))).To(Satisfy(apierrors.IsForbidden), "it makes no Cluster by hand")
}
