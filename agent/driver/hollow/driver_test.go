package hollow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/drivertest"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// targetNamespace is where config/rbac/agent-workload puts the bootstrap ServiceAccount.
const targetNamespace = "hollowfleet"

type env struct {
	t *testing.T
	*Driver
	client    client.Client
	namespace string
	clock     *clocktesting.FakePassiveClock
}

func newEnv(t *testing.T) *env {
	t.Helper()
	c := agenttest.Environment(t).Client
	b := &env{t: t, client: c, namespace: agenttest.Namespace(t, c), clock: clocktesting.NewFakePassiveClock(time.Now())}
	var err error
	b.Driver, err = New(t.Context(), Options{Image: "hollowfleet/hollow-node", ServerURL: "https://192.0.2.1", ServerCA: []byte("CA")}, driver.Environment{
		ClusterName: "c1", Clock: b.clock, Log: logr.Discard(), Changed: func(string) {},
		Target: driver.Access{Client: c, Reader: c, Namespace: targetNamespace},
		Host:   driver.Access{Client: c, Reader: c, Namespace: b.namespace},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *env) request(name string) driver.Request {
	machine := testMachine()
	machine.Name = name
	return driver.Request{Machine: machine, Class: classOf(`{` + head + `}`)}
}

func (b *env) pod(g *WithT, name string) *corev1.Pod {
	pod := &corev1.Pod{}
	g.Expect(b.client.Get(context.Background(), client.ObjectKey{Namespace: b.namespace, Name: name}, pod)).To(Succeed())
	return pod
}

func (b *env) secret(g *WithT, name string) *corev1.Secret {
	secret := &corev1.Secret{}
	g.Expect(b.client.Get(context.Background(), client.ObjectKey{Namespace: b.namespace, Name: name}, secret)).To(Succeed())
	return secret
}

// Claim: Create is idempotent. Broken: Create makes the pod again.
// Claim: Fake and hollow driver keep one contract. Broken: as above.
func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Subject {
		return drivertest.Subject{
			Driver: newEnv(t).Driver, Timeout: agenttest.Wait,
			Valid: `{` + head + `}`, Changed: `{` + head + `,"maxPods":50}`,
			Invalid: `{` + head + `,"maxPods":"many"}`, InvalidField: "spec.providerConfig.value.maxPods",
		}
	})
}

// reads counts what is read from the API server.
type reads struct {
	client.Reader
	lists int
}

func (r *reads) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.lists++
	return r.Reader.List(ctx, list, options...)
}

// Edge case: All pods were listed every ten seconds.
func TestCountAsksTheAPIServerOnlyForNothing(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	cached := &corev1.PodList{}
	watching, err := client.NewWithWatch(agenttest.Environment(t).Config, client.Options{Scheme: b.client.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	live := &reads{Reader: b.client}
	b.environment.Host.Reader = live
	b.environment.Host.Client = interceptor.NewClient(watching, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			cached.DeepCopyInto(list.(*corev1.PodList))
			return nil
		},
	})
	g.Expect(driver.Count(t.Context(), b.Driver)).To(BeZero())
	g.Expect(live.lists).To(Equal(1), "a cache that has none may be behind")
	_, err = b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(driver.Count(t.Context(), b.Driver)).To(Equal(1), "the API server knows more than the cache")
	cached.Items = []corev1.Pod{*b.pod(g, "m1")}
	before := live.lists
	g.Expect(driver.Count(t.Context(), b.Driver)).To(Equal(1))
	g.Expect(live.lists).To(Equal(before), "the cache is enough")
	cached.Items[0].DeletionTimestamp = &metav1.Time{Time: b.clock.Now()}
	g.Expect(driver.Count(t.Context(), b.Driver)).To(Equal(1), "it is being removed by the cache alone")
}

func TestCreateMakesAPodAndASecret(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())

	pods, secrets := &corev1.PodList{}, &corev1.SecretList{}
	g.Expect(b.client.List(t.Context(), pods, client.InNamespace(b.namespace))).To(Succeed())
	g.Expect(b.client.List(t.Context(), secrets, client.InNamespace(b.namespace))).To(Succeed())
	g.Expect(pods.Items).To(HaveLen(1))
	g.Expect(secrets.Items).To(HaveLen(1))

	secret := b.secret(g, "m1")
	configuration, err := hollownode.Parse(secret.Data[hollownode.ConfigFileName])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(configuration.NodeName).To(Equal("m1"))
	kubeconfig, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[hollownode.BootstrapKubeconfigFileName])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kubeconfig.Host).To(Equal("https://192.0.2.1"))
	g.Expect(kubeconfig.CAData).To(Equal([]byte("CA")))

	// The token is one of the bootstrap ServiceAccount, and the API server calls it by the ID that was noted.
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: kubeconfig.BearerToken}}
	g.Expect(b.client.Create(t.Context(), review)).To(Succeed())
	g.Expect(review.Status.Authenticated).To(BeTrue())
	g.Expect(review.Status.User.Username).To(Equal("system:serviceaccount:hollowfleet:hollow-node-bootstrap"))
	ids, err := Identities{b.client, b.namespace, "c1"}.TokenIDs(t.Context(), "m1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ids).To(HaveLen(1))
	g.Expect(review.Status.User.Extra["authentication.kubernetes.io/credential-id"]).To(ConsistOf("JTI=" + ids[0]))

	// A policy for unprivileged pods lets it in.
	g.Expect(b.client.Get(t.Context(), client.ObjectKey{Name: targetNamespace}, &corev1.Namespace{})).To(Succeed())
	dry := renderPod("c1", targetNamespace, "policy", "hollowfleet/hollow-node", desired{})
	g.Expect(b.client.Create(t.Context(), dry, client.DryRunAll)).To(Succeed(), "namespace hollowfleet enforces the restricted policy")
}

func TestTokenIDsOfAnother(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	for name, read := range map[string]func(context.Context, string) ([]string, error){
		"m2": Identities{b.client, b.namespace, "c1"}.TokenIDs, "m1": Identities{b.client, b.namespace, "c2"}.TokenIDs,
	} {
		ids, err := read(t.Context(), name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ids).To(BeEmpty())
	}
}

func TestAddressesAreThoseOfThePod(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	own := Identities{b.client, b.namespace, "c1"}
	read := func(from Identities, machine string) []string {
		addresses, err := from.Addresses(t.Context(), machine)
		g.Expect(err).NotTo(HaveOccurred())
		var texts []string
		for _, address := range addresses {
			texts = append(texts, address.String())
		}
		return texts
	}
	g.Expect(read(own, "m1")).To(BeEmpty(), "the pod has no address yet")
	pod := b.pod(g, "m1")
	pod.Status.PodIP, pod.Status.PodIPs = "127.64.0.5", []corev1.PodIP{{IP: "127.64.0.5"}, {IP: "2001:db8::5"}}
	g.Expect(b.client.Status().Update(t.Context(), pod)).To(Succeed())
	g.Expect(read(own, "m1")).To(Equal([]string{"127.64.0.5", "241.64.0.5", "2001:db8::5"}))
	g.Expect(read(own, "m2")).To(BeEmpty())
	g.Expect(read(Identities{b.client, b.namespace, "c2"}, "m1")).To(BeEmpty())
}

func TestTokenIsReplacedUntilTheNodeHasJoined(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	request := b.request("m1")
	_, err := b.Create(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	first, pod := b.secret(g, "m1"), b.pod(g, "m1")

	found, err := b.Get(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeTrue())
	g.Expect(found.RecheckAfter).To(BeNumerically("~", tokenLifetime-refreshBefore, 20*time.Second))

	b.clock.SetTime(b.clock.Now().Add(tokenLifetime - refreshBefore + time.Second))
	found, err = b.Get(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeFalse(), "the token runs out")

	joined := b.request("m1")
	joined.Machine.Spec.ProviderID = ptr.To("hollowfleet://c1/m1")
	found, err = b.Get(t.Context(), joined)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeTrue(), "a node that has joined needs no token")
	g.Expect(found.RecheckAfter).To(BeZero())

	_, err = b.Update(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	second := b.secret(g, "m1")
	g.Expect(second.Data[hollownode.BootstrapKubeconfigFileName]).NotTo(Equal(first.Data[hollownode.BootstrapKubeconfigFileName]))
	g.Expect(tokenIDs(second)).To(HaveLen(2))
	g.Expect(tokenIDs(second)[1]).To(Equal(tokenIDs(first)[0]), "a request made with the token before is still good")
	g.Expect(b.pod(g, "m1").UID).To(Equal(pod.UID), "the pod stays")
}

func TestACacheThatIsBehindIsNotBelieved(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	request := b.request("m1")
	_, err := b.Create(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	created := b.pod(g, "m1")
	running := created.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	g.Expect(b.client.Status().Update(t.Context(), running)).To(Succeed())
	ready := running.DeepCopy()
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	g.Expect(b.client.Status().Update(t.Context(), ready)).To(Succeed())

	var cached *corev1.Pod
	d := &Driver{options: b.options, environment: b.environment}
	d.environment.Host.Client = podCache{Client: b.client, cached: &cached}
	for _, cached = range []*corev1.Pod{nil, created, running, running, ready} {
		found, err := d.Get(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.State).To(Equal(driver.Running), "the API server has told so at the first look")
	}

	g.Expect(b.client.Delete(t.Context(), created)).To(Succeed())
	_, err = d.readPod(t.Context(), "m1")
	g.Expect(err).To(MatchError(driver.ErrNotFound))
	_, err = d.Create(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	found, err := d.Get(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.State).To(Equal(driver.Pending), "the cache still has the pod before")

	g.Expect(d.Delete(t.Context(), request.Machine)).To(Succeed())
	cached = running
	_, err = d.Get(t.Context(), request)
	g.Expect(err).To(MatchError(driver.ErrNotFound), "the cache goes through the past of a pod that is gone")
	g.Expect(d.Delete(t.Context(), request.Machine)).To(Succeed())
	g.Expect(d.pods.Behind(running)).To(BeFalse(), "of a Machine that is gone nothing is kept")
}

// podCache is a client whose cache holds one pod, or none, as the test says.
type podCache struct {
	client.Client
	cached **corev1.Pod
}

func (c podCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	pod, isPod := object.(*corev1.Pod)
	switch {
	case !isPod:
		return c.Client.Get(ctx, key, object, options...)
	case *c.cached == nil:
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	(*c.cached).DeepCopyInto(pod)
	return nil
}

func TestTokenExpiryIsReadAgainAfterARestart(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	restarted := &Driver{options: b.options, environment: b.environment}
	found, err := restarted.Get(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeTrue())
	g.Expect(found.RecheckAfter).To(BeNumerically(">", time.Minute))
}

func TestLabelsAndTaintsReplaceThePodOnlyBeforeItHasJoined(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	edited := b.request("m1")
	edited.Machine.Spec.NodeMetadata.Labels = map[string]string{"tier": "gold"}
	found, err := b.Get(t.Context(), edited)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeFalse(), "the node would register with labels of the past")
	edited.Machine.Spec.ProviderID = ptr.To("hollowfleet://c1/m1")
	found, err = b.Get(t.Context(), edited)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeTrue(), "the agent keeps the labels of a node in sync itself")
}

func TestAnotherClustersPodIsNotTouched(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	other := &Driver{options: b.options, environment: b.environment}
	other.environment.ClusterName = "c2"

	_, err = other.Create(t.Context(), b.request("m1"))
	g.Expect(err).To(MatchError(ContainSubstring(`is not of cluster "c2"`)))
	g.Expect(other.Delete(t.Context(), b.request("m1").Machine)).To(MatchError(ContainSubstring("give each cluster a host namespace of its own")))
	g.Expect(other.List(t.Context())).To(BeEmpty())
	b.pod(g, "m1")
	b.secret(g, "m1")
}

// Claim: The pod's Secret is removed. Broken: the Secret is left.
func TestDeleteRemovesTheSecretAlsoWithoutAPod(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	request := b.request("m1")
	_, err := b.Create(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.client.Delete(t.Context(), b.pod(g, "m1"))).To(Succeed())
	g.Expect(b.Delete(t.Context(), request.Machine)).To(Succeed())
	err = b.client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "m1"}, &corev1.Secret{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "got %v", err)
}

// Claim: A used-up quota is its own error. Broken: a quota is any error.
func TestQuotaIsExhaustion(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse("0")}
	g.Expect(b.client.Create(t.Context(), quota)).To(Succeed())
	var last error
	attempts := 0
	g.Eventually(func() bool {
		// A pod may be created before the quota is in force, and then is there: the next one is refused.
		attempts++
		_, last = b.Create(t.Context(), b.request(fmt.Sprintf("m%d", attempts)))
		var exhausted *driver.ExhaustedError
		return errors.As(last, &exhausted)
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "a full quota is no failure of the machine")
	g.Expect(strings.Contains(last.Error(), "exceeded quota")).To(BeTrue(), "%v", last)
}

func TestObjectsAreLabeled(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	_, err := b.Create(t.Context(), b.request("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	want := And(HaveKeyWithValue(v1alpha1.MachineNameLabel, "m1"), HaveKeyWithValue(v1alpha1.ClusterNameLabel, "c1"))
	g.Expect(b.pod(g, "m1").Labels).To(want)
	g.Expect(b.secret(g, "m1").Labels).To(want)
}
