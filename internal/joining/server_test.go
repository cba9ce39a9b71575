package joining_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const patience = 2 * time.Minute

func TestMain(m *testing.M) { testenv.MainShared(m) }

type env struct {
	*WithT
	t       *testing.T
	client  client.WithWatch
	request joining.Request
}

func newEnv(t *testing.T) *env {
	t.Helper()
	f := &env{WithT: NewWithT(t), t: t}
	var err error
	f.client, err = client.NewWithWatch(testenv.Server().Config, client.Options{Scheme: scheme.New()})
	f.Expect(err).NotTo(HaveOccurred())
	f.request = joining.Request{Cluster: "c-" + rand.String(8), TokenTTL: time.Hour}
	return f
}

func (f *env) do() (*joining.Result, error) {
	return f.request.Do(f.t.Context(), f.client, time.Now())
}

func (f *env) mustDo() *joining.Result {
	f.t.Helper()
	result, err := f.do()
	f.Expect(err).NotTo(HaveOccurred())
	return result
}

func (f *env) cluster() *v1alpha1.Cluster {
	f.t.Helper()
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.client.Get(f.t.Context(), client.ObjectKey{Name: f.request.Cluster}, cluster)).To(Succeed())
	return cluster
}

func (f *env) tokens() []corev1.Secret {
	f.t.Helper()
	secrets := &corev1.SecretList{}
	f.Expect(f.client.List(f.t.Context(), secrets, client.InNamespace("kube-system"),
		client.MatchingLabels{v1alpha1.ClusterNameLabel: f.request.Cluster})).To(Succeed())
	return secrets.Items
}

func (f *env) setJoined() {
	f.t.Helper()
	cluster := f.cluster()
	cluster.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ClusterJoinedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLeaseRenewed, LastTransitionTime: metav1.Now(),
	}}
	f.Expect(f.client.Status().Update(f.t.Context(), cluster)).To(Succeed())
}

func TestATokenIsForOneCluster(t *testing.T) {
	f := newEnv(t)
	f.request.Labels = map[string]string{"stage": "test"}
	result := f.mustDo()
	f.Expect(result.Created).To(BeTrue())
	f.Expect(f.cluster().Spec.Acceptance).To(Equal(v1alpha1.AcceptancePending))
	f.Expect(f.cluster().Labels).To(HaveKeyWithValue("stage", "test"))
	f.Expect(result.Expires).To(BeTemporally("~", time.Now().Add(time.Hour), patience))

	server, err := joining.ServerOf(testenv.Server().Config)
	f.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := server.Kubeconfig(f.request.Cluster, result.Token)
	f.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	f.Expect(err).NotTo(HaveOccurred())
	agent, err := client.New(config, client.Options{Scheme: scheme.New(), Mapper: f.client.RESTMapper()})
	f.Expect(err).NotTo(HaveOccurred())
	// The API server's cache of Secrets may be a moment behind.
	review := &authenticationv1.SelfSubjectReview{}
	f.Eventually(func() error { return agent.Create(t.Context(), review) }, patience).Should(Succeed())
	f.Expect(review.Status.UserInfo.Username).To(HavePrefix("system:bootstrap:"))
	f.Expect(review.Status.UserInfo.Groups).To(ContainElement(v1alpha1.JoinGroupPrefix + f.request.Cluster))
	f.Expect(apierrors.IsForbidden(agent.List(t.Context(), &v1alpha1.ClusterList{}))).To(BeTrue(), "it may not do more than the hub lets it")

	deleted, err := joining.DeleteTokens(t.Context(), f.client, f.request.Cluster)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(deleted).To(Equal(1))
	f.Eventually(func() bool {
		return apierrors.IsUnauthorized(agent.Create(t.Context(), &authenticationv1.SelfSubjectReview{}))
	}, patience).Should(BeTrue(), "a token that is deleted is good for nothing")
}

func TestAcceptanceIsWrittenAsAskedFor(t *testing.T) {
	for accept, want := range map[joining.Acceptance]v1alpha1.ClusterSpec{
		"":                   {Acceptance: v1alpha1.AcceptancePending, AcceptancePolicy: v1alpha1.AcceptanceManual},
		joining.AcceptManual: {Acceptance: v1alpha1.AcceptancePending, AcceptancePolicy: v1alpha1.AcceptanceManual},
		joining.AcceptAuto:   {Acceptance: v1alpha1.AcceptancePending, AcceptancePolicy: v1alpha1.AcceptanceAuto},
		joining.AcceptNow:    {Acceptance: v1alpha1.AcceptanceAccepted, AcceptancePolicy: v1alpha1.AcceptanceManual},
	} {
		t.Run("accept="+string(accept), func(t *testing.T) {
			f := newEnv(t)
			f.request.Accept = accept
			f.mustDo()
			f.Expect(f.cluster().Spec.Acceptance).To(Equal(want.Acceptance))
			f.Expect(f.cluster().Spec.AcceptancePolicy).To(Equal(want.AcceptancePolicy))
		})
	}
}

func TestAnotherRequestKeepsWhatItDoesNotName(t *testing.T) {
	f := newEnv(t)
	f.request.Accept = joining.AcceptAuto
	first := f.mustDo()
	f.request.Accept = ""
	second := f.mustDo()
	f.Expect(second.Created).To(BeFalse())
	f.Expect(second.Token).NotTo(Equal(first.Token))
	f.Expect(f.cluster().Spec.AcceptancePolicy).To(Equal(v1alpha1.AcceptanceAuto))
	f.Expect(f.tokens()).To(HaveLen(2))
	for _, token := range f.tokens() {
		f.Expect(token.OwnerReferences).To(HaveLen(1), "it goes with its Cluster")
	}
}

func TestExpiredTokensAreRemoved(t *testing.T) {
	f := newEnv(t)
	token := joining.NewToken(time.Now().Add(-time.Minute))
	f.Expect(f.client.Create(t.Context(), token.Object(f.request.Cluster))).To(Succeed())
	f.mustDo()
	f.Expect(f.tokens()).To(HaveLen(1))
	f.Expect(f.tokens()[0].Name).NotTo(HaveSuffix(token.ID))
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*env)
		want    joining.Refusal
	}{
		"joined": {func(f *env) { f.mustDo(); f.setJoined() }, joining.AlreadyJoined},
		"denied": {func(f *env) {
			f.mustDo()
			cluster := f.cluster()
			cluster.Spec.Acceptance = v1alpha1.AcceptanceDenied
			f.Expect(f.client.Update(f.t.Context(), cluster)).To(Succeed())
		}, joining.IsDenied},
		"deleting": {func(f *env) {
			f.mustDo()
			cluster := f.cluster()
			cluster.Finalizers = []string{"example.com/held"}
			f.Expect(f.client.Update(f.t.Context(), cluster)).To(Succeed())
			f.Expect(f.client.Delete(f.t.Context(), cluster)).To(Succeed())
		}, joining.IsDeleting},
		"not accepted, with a ServiceAccount": {func(f *env) {
			f.request.Credential = v1alpha1.CredentialServiceAccountToken
		}, joining.NotAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t)
			test.prepare(f)
			before := len(f.tokens())
			_, err := f.do()
			refused := (*joining.RefusedError)(nil)
			f.Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
			f.Expect(refused.Reason).To(Equal(test.want))
			f.Expect(f.tokens()).To(HaveLen(before), "no token is made")
		})
	}
}

func TestAClusterThatHasJoinedGetsATokenIfAskedAgain(t *testing.T) {
	f := newEnv(t)
	f.mustDo()
	f.setJoined()
	f.request.Again = true
	f.Expect(f.mustDo().Token).NotTo(BeEmpty())
}

func TestNothingIsLeftOfARequestThatFails(t *testing.T) {
	refuse := errors.New("no Secret today")
	failing := func(f *env) client.WithWatch {
		return interceptor.NewClient(f.client, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if _, secret := object.(*corev1.Secret); secret {
					return refuse
				}
				return c.Create(ctx, object, options...)
			},
		})
	}
	t.Run("a new cluster", func(t *testing.T) {
		f := newEnv(t)
		_, err := f.request.Do(t.Context(), failing(f), time.Now())
		f.Expect(err).To(MatchError(refuse))
		f.Expect(apierrors.IsNotFound(f.client.Get(t.Context(), client.ObjectKey{Name: f.request.Cluster}, &v1alpha1.Cluster{}))).To(BeTrue())
	})
	t.Run("a cluster that was there", func(t *testing.T) {
		f := newEnv(t)
		f.mustDo()
		before := f.cluster()
		f.request.Accept, f.request.Labels = joining.AcceptNow, map[string]string{"stage": "test"}
		_, err := f.request.Do(t.Context(), failing(f), time.Now())
		f.Expect(err).To(MatchError(refuse))
		f.Expect(f.cluster().Spec).To(Equal(before.Spec))
		f.Expect(f.cluster().Labels).To(Equal(before.Labels))
	})
	t.Run("a result that cannot be handed over", func(t *testing.T) {
		f := newEnv(t)
		full := errors.New("disk full")
		f.request.Deliver = func(*joining.Result) error { return full }
		_, err := f.do()
		f.Expect(err).To(MatchError(full))
		f.Expect(f.tokens()).To(BeEmpty())
		f.Expect(apierrors.IsNotFound(f.client.Get(t.Context(), client.ObjectKey{Name: f.request.Cluster}, &v1alpha1.Cluster{}))).To(BeTrue())
	})
}

func TestAServiceAccountsTokenIsWaitedFor(t *testing.T) {
	f := newEnv(t)
	f.request.Accept, f.request.Credential = joining.AcceptNow, v1alpha1.CredentialServiceAccountToken
	// What the hub does once the cluster is accepted.
	f.Expect(f.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.request.Cluster}})).To(Succeed())
	done := make(chan *joining.Result, 1)
	go func() {
		result, err := f.do()
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	f.Eventually(func() error {
		return f.client.Get(t.Context(), client.ObjectKey{Name: f.request.Cluster}, &v1alpha1.Cluster{})
	}, patience).Should(Succeed())
	f.Consistently(done, 200*time.Millisecond).ShouldNot(Receive())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.request.Cluster, Name: v1alpha1.AgentServiceAccount}}
	f.Expect(f.client.Create(t.Context(), account)).To(Succeed())
	var result *joining.Result
	f.Eventually(done, patience).Should(Receive(&result))
	f.Expect(strings.Split(result.Token, ".")).To(HaveLen(3), "a JWT")
	f.Expect(result.Expires).To(BeTemporally("~", time.Now().Add(time.Hour), patience))
	f.Expect(f.tokens()).To(BeEmpty())
}

func TestTheKindRefusesTheSameNames(t *testing.T) {
	f := newEnv(t)
	for _, name := range []string{"default", "kube-system", "openshift-x", "open-cluster-management-hub", "cert-manager", "hollowfleet", "hollowfleet-system", "a.b", "c1", "kube"} {
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := f.client.Create(t.Context(), cluster, client.DryRunAll)
		f.Expect(err == nil).To(Equal(joining.CheckName(name) == nil), "%s: %v", name, err)
	}
}

func TestAWriteOfTheHubInBetween(t *testing.T) {
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprintf("again=%v", again), func(t *testing.T) {
			f := newEnv(t)
			f.mustDo()
			f.request.Accept, f.request.Again = joining.AcceptNow, again
			behind := true
			_, err := f.request.Do(t.Context(), interceptor.NewClient(f.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
					if behind {
						behind = false
						f.setJoined()
					}
					return c.Patch(ctx, object, patch, options...)
				},
			}), time.Now())
			if again {
				f.Expect(err).NotTo(HaveOccurred())
				f.Expect(f.cluster().Spec.Acceptance).To(Equal(v1alpha1.AcceptanceAccepted))
				return
			}
			refused := (*joining.RefusedError)(nil)
			f.Expect(errors.As(err, &refused)).To(BeTrue(), "what is there now decides: %v", err)
			f.Expect(refused.Reason).To(Equal(joining.AlreadyJoined))
			f.Expect(f.cluster().Spec.Acceptance).To(Equal(v1alpha1.AcceptancePending))
		})
	}
}
