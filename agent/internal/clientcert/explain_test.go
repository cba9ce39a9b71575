package clientcert

import (
	"context"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// workload returns a client of a user who may do that much with Secrets of the env's namespace, the workload cluster's of this test.
func (b *env) workload(verbs ...string) client.Client {
	b.T.Helper()
	user := "workload:" + b.cluster
	if len(verbs) > 0 {
		b.ExpectApplied(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: b.cluster, Name: "secrets"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs},
		}})
		b.ExpectApplied(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.cluster, Name: "secrets"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "secrets"},
		})
	}
	config := rest.CopyConfig(b.Server.Config)
	config.Impersonate.UserName = user
	return b.clientOf(config)
}

func (b *env) clientOf(config *rest.Config) client.Client {
	b.T.Helper()
	direct, err := clients.NewDirect(config)
	b.Expect(err).NotTo(HaveOccurred())
	return direct.Ungated(clients.Keeping("Secret", b.secret()))
}

func (b *env) secret() client.ObjectKey {
	return client.ObjectKey{Namespace: b.cluster, Name: "hub-credential"}
}

func storedIn(workload client.Client, key client.ObjectKey) func(*Options) {
	return func(o *Options) { o.Store = NewSecret(workload, key) }
}

// expectWaitingForTheStore fails unless the manager waits for what every text names, and for nothing of the hub.
func (b *env) expectWaitingForTheStore(texts ...string) {
	b.T.Helper()
	for _, text := range texts {
		b.expectWaiting(text)
	}
	b.Expect(b.manager.Waiting()).NotTo(Or(ContainSubstring("the hub"), ContainSubstring("join token"), ContainSubstring("the token at")))
}

// Claim: A credential that cannot be stored names API server, verb, Secret and remedy. Broken: errors of the store explained as the hub's. Also: TestTheNamespaceOfAPodhost, TestAWorkloadClusterThatDoesNotKnowItsAgent, TestANamespaceThatTheWorkloadClusterDoesNotHave, TestARefusalByTheHubNamesTheRole.
func TestARefusalByTheWorkloadClusterIsNotTheHubs(t *testing.T) {
	for verb, verbs := range map[string][]string{"get": nil, "create": {"get"}, "update": {"get", "create"}} {
		t.Run(verb, func(t *testing.T) {
			b := newEnv(t)
			workload := b.workload(verbs...)
			if verb == "update" {
				b.ExpectApplied(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.cluster, Name: b.secret().Name}})
			}
			b.run(storedIn(workload, b.secret()))
			b.expectWaitingForTheStore("permission to "+verb+" Secret "+b.secret().String()+" in the workload cluster: Role hollowfleet-agent",
				"apply config/rbac/agent-workload", "target.namespace", `cannot `+verb+` resource "secrets"`)
		})
	}
}

// A store that a credential cannot be written to any more costs no credential, and the log says what to do.
func TestARefusalByTheWorkloadClusterAfterTheJoin(t *testing.T) {
	b := newEnv(t)
	b.run(storedIn(b.workload("get", "create"), b.secret()))
	b.approve()
	b.soon(b.ready, "a credential")
	b.Eventually(b.log.String).Should(ContainSubstring("permission to update Secret " + b.secret().String() + " in the workload cluster: Role hollowfleet-agent"))
}

// The policy is that of simulated clusters, the user an ordinary one, such as a ServiceAccount.
func TestTheNamespaceOfAPodhost(t *testing.T) {
	b := newEnv(t)
	b.applyPodhostPolicy()
	workload := b.workload("get", "create", "update")
	b.Eventually(func() error {
		return b.Client.Create(context.Background(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.cluster, Name: "probe"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, client.DryRunAll)
	}).WithTimeout(agenttest.Wait).Should(MatchError(ContainSubstring("hollowfleet-podhost")), "the policy counts")
	b.run(storedIn(workload, b.secret()))
	b.expectWaitingForTheStore("permission to create Secret "+b.secret().String()+" in the workload cluster: it is a simulated one",
		"simcluster kubeconfig --user hollowfleet-agent --group hollowfleet:agents", "target.kubeconfigSecret")
}

func (b *env) applyPodhostPolicy() {
	b.T.Helper()
	content, err := os.ReadFile("../../simulator/internal/controlplane/podhostpolicy.yaml")
	b.Expect(err).NotTo(HaveOccurred())
	for _, document := range strings.Split(strings.ReplaceAll(string(content), "{{namespace}}", b.cluster), "\n---\n") {
		object := &unstructured.Unstructured{}
		b.Expect(yaml.Unmarshal([]byte(document), object)).To(Succeed())
		b.ExpectApplied(object)
	}
}

// A 401 of the workload cluster is none of the hub: the join token stays good.
func TestAWorkloadClusterThatDoesNotKnowItsAgent(t *testing.T) {
	b := newEnv(t)
	anonymous := rest.AnonymousClientConfig(b.Server.Config)
	anonymous.BearerToken = "nobody"
	store := &loadable{Secret: NewSecret(b.clientOf(anonymous), b.secret())}
	b.run(func(o *Options) { o.Store = store })
	b.expectWaitingForTheStore("access to the workload cluster, which rejects the agent's user", "target.kubeconfigSecret")
	b.stop()
	b.Expect(b.manager.spent).To(BeEmpty(), "the hub has not refused the join token")
}

// loadable is a Secret that was read before the workload cluster forgot the user.
type loadable struct{ *Secret }

func (l *loadable) Load(context.Context) (Contents, error) { return Contents{}, nil }

func TestANamespaceThatTheWorkloadClusterDoesNotHave(t *testing.T) {
	b := newEnv(t)
	key := client.ObjectKey{Namespace: b.cluster + "-missing", Name: "hub-credential"}
	direct, err := clients.NewDirect(b.Server.Config)
	b.Expect(err).NotTo(HaveOccurred())
	b.run(storedIn(direct.Ungated(clients.Keeping("Secret", key)), key))
	b.expectWaitingForTheStore("the namespace of Secret "+key.String()+" in the workload cluster", "--credential-secret; chart value target.namespace")
}

func TestADirectoryThatFails(t *testing.T) {
	b := newEnv(t)
	dir, err := NewDir(b.dir)
	b.Expect(err).NotTo(HaveOccurred())
	b.run(func(o *Options) {
		b.Expect(os.Remove(b.dir)).To(Succeed())
		o.Store = dir
	})
	b.expectWaitingForTheStore("the store of its credential, which --credential-dir names: directory " + b.dir)
}

// Each refusal of the hub names verb, object and the role that is missing.
func TestARefusalByTheHubNamesTheRole(t *testing.T) {
	b := newEnv(t)
	role := &rbacv1.ClusterRole{}
	b.Expect(b.Client.Get(context.Background(), client.ObjectKey{Name: "join:" + b.cluster}, role)).To(Succeed())
	rules := role.Rules
	request := "CertificateSigningRequest " + v1alpha1.AgentRequestPrefix + b.cluster
	for _, c := range []struct {
		verb  string
		rules []rbacv1.PolicyRule
	}{{"get", rules[:1]}, {"create", []rbacv1.PolicyRule{rules[0], rules[2]}}} {
		role.Rules = c.rules
		b.Expect(b.Client.Update(context.Background(), role)).To(Succeed())
		b.Eventually(func() bool { return b.mayRequest(c.verb) }).WithTimeout(agenttest.Wait).Should(BeFalse())
		b.run()
		b.expectWaiting("permission to " + c.verb + " " + request + " on the hub: ClusterRole hollowfleet:join:" + b.cluster)
		b.Expect(b.manager.Waiting()).NotTo(ContainSubstring("is not for Cluster"))
	}
}

// mayRequest reports whether a holder of a join token may do that with the cluster's request.
func (b *env) mayRequest(verb string) bool {
	b.T.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "join", Groups: []string{v1alpha1.JoinGroupPrefix + b.cluster},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Name: v1alpha1.AgentRequestPrefix + b.cluster, Verb: verb,
		},
	}}
	b.ExpectApplied(review)
	return review.Status.Allowed
}
