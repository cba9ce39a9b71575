package simulatedcluster

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestASimulatedClusterIsMadeStepByStep(t *testing.T) {
	b := newEnv(t)
	one := b.newOne(func(one *v1alpha1.SimulatedCluster) { one.Spec.Versions.ControlPlane = "v1.36" })
	b.round(1)
	b.expectFinalizer(one, true)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonAwaitingCredential, "waits for the hub's approval")
	b.Expect(b.driver.Calls()).To(BeEmpty())
	b.Expect(b.request(one).Spec.SignerName).To(Equal(certificatesv1.KubeAPIServerClientSignerName))

	b.decide(one, certificatesv1.CertificateApproved)
	b.round(1)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonStarting, "has been asked")
	b.Expect(b.driver.Desired(one.Name)).To(And(
		HaveField("UID", string(one.UID)), HaveField("ControlPlaneVersion", "v1.36"), HaveField("Hub.Server", "https://hub:6443"), HaveField("Credential.Key", Not(BeEmpty())),
	))
	b.round(3)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	b.Expect(one.Status.Versions.ControlPlane).To(Equal("v1.36"))
	b.Expect(b.ReadCondition(one, v1alpha1.ControlPlaneReadyCondition).ObservedGeneration).To(Equal(one.Generation))
	b.Expect(b.driver.Calls()).To(Equal([]string{"Ensure " + one.Name}), "it is asked for once")
}

// Claim: Nothing is made before the hub has the Cluster. Broken: ClusterCreated is not asked for; its generation is not.
func TestNothingIsMadeBeforeTheHubSaysSo(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.created(one, metav1.ConditionFalse)
	b.round(2)
	b.expectFinalizer(one, false)
	b.Expect(b.request(one)).To(BeNil())
	b.expectSaid(one, metav1.ConditionUnknown, v1alpha1.ReasonPending, "has not created the Cluster")

	b.created(one, metav1.ConditionTrue)
	b.patch(one, `{"spec":{"versions":{"controlPlane":"v1.36"}}}`)
	b.round(2)
	b.Expect(b.request(one)).To(BeNil(), "the hub has not observed the current spec")
	b.created(one, metav1.ConditionTrue)
	b.running(one)

	// The proof on the Cluster has become another's.
	b.created(one, metav1.ConditionFalse)
	b.patch(one, `{"spec":{"versions":{"controlPlane":"v1.37"}}}`)
	calls := b.driver.Calls()
	b.round(2)
	b.Expect(b.driver.Calls()).To(Equal(calls), "neither changed nor removed")
	b.expectFinalizer(one, true)
}

// watched tells of each call before it is made.
type watched struct {
	clusterdriver.Driver
	ensuring func()
}

func (w watched) Ensure(ctx context.Context, desired clusterdriver.Desired) error {
	w.ensuring()
	return w.Driver.Ensure(ctx, desired)
}

// Claim: The host's finalizer comes before anything is made. Broken: it is added after Ensure.
func TestTheFinalizerComesFirst(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.restart(watched{b.driver, func() { b.expectFinalizer(one, true) }})
	b.round(1)
	b.decide(one, certificatesv1.CertificateApproved)
	b.patch(one, `{"metadata":{"finalizers":["`+v1alpha1.ClusterFinalizer+`"]}}`)
	b.round(1)
	b.expectFinalizer(one, true)
	b.Expect(b.driver.Calls()).To(HaveLen(1))
}

// Claim: A frozen host makes and removes nothing. Broken: the driver is not gated; the freeze annotation is not read.
func TestNothingIsDoneWhileFrozen(t *testing.T) {
	frozen := &freeze.Error{Reason: v1alpha1.ReasonTargetUnreachable, Message: "said by the test"}
	for name, hold := range map[string]func(b *env, ones ...*v1alpha1.SimulatedCluster){
		"the agent": func(b *env, _ ...*v1alpha1.SimulatedCluster) { b.freeze(frozen) },
		"by a user": func(b *env, ones ...*v1alpha1.SimulatedCluster) {
			for _, one := range ones {
				b.patch(one, `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"x"}}}`)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			gone := b.newOne()
			b.running(gone)
			b.deleted(gone)
			calls := b.driver.Calls()
			fresh := b.newOne()
			hold(b, gone, fresh)
			b.round(2)
			b.Expect(b.driver.Calls()).To(Equal(calls))
			b.expectFinalizer(fresh, false)
			b.Expect(b.request(fresh)).To(BeNil())
			b.expectSaid(fresh, metav1.ConditionUnknown, v1alpha1.ReasonPending, "frozen")
			b.expectSaid(gone, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingThaw, "frozen")

			b.freeze(nil)
			b.patch(fresh, `{"metadata":{"annotations":null}}`)
			b.round(1)
			b.Expect(b.request(fresh)).NotTo(BeNil())
		})
	}
}

// The gate refuses what was decided before the freeze was noticed, too.
func TestTheGateIsBelowTheDriver(t *testing.T) {
	b := newEnv(t)
	b.freeze(&freeze.Error{Reason: v1alpha1.ReasonHubUnreachable})
	b.Expect(b.Driver.Ensure(t.Context(), clusterdriver.Desired{Name: "c", UID: "u"})).NotTo(Succeed())
	_, err := b.Driver.Remove(t.Context(), "c", "u")
	b.Expect(err).To(HaveOccurred())
	b.Expect(b.driver.Calls()).To(BeEmpty())
}

// A bystander leaves it to the agent that works.
func TestABystanderReportsNothing(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.freeze(&freeze.Error{Reason: v1alpha1.ReasonAnotherAgent})
	b.round(1)
	b.Expect(b.ReadCondition(one, v1alpha1.ControlPlaneReadyCondition)).To(BeNil())
}

// Claim: A control plane goes after the Machines, the finalizer after it and the certificate request. Broken: MachinesRemoved is not waited for; the finalizer goes before the driver is done; the request stays.
func TestRemovalInOrder(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.running(one)
	b.ExpectDeleted(one)
	b.round(2)
	b.Expect(b.driver.Calls()).To(HaveLen(1), "the Machines are not gone yet")
	b.driver.Linger()
	b.tell(one, metav1.Condition{Type: v1alpha1.MachinesRemovedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMachinesRemoved})
	b.driver.Fail("Remove "+one.Name, errTest)
	b.Expect(b.Work(t.Context())).NotTo(Succeed())
	b.expectSaid(one, metav1.ConditionUnknown, v1alpha1.ReasonDeleting, "said by the test")
	b.expectFinalizer(one, true)
	b.round(2)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "being removed")
	b.expectFinalizer(one, true)
	b.Expect(b.request(one)).NotTo(BeNil())
	b.driver.Finish(one.Name)
	b.round(1)
	b.expectFinalizer(one, false)
	b.Expect(b.request(one)).To(BeNil(), "it is not needed any more")
	b.round(1)
}

// Claim: A silent driver leaves readiness Unknown. Broken: Ready stays; an empty list is taken for it.
func TestASilentDriverProvesNothing(t *testing.T) {
	b := newEnv(t)
	one, gone := b.newOne(), b.newOne()
	b.running(one)
	b.deleted(gone)
	b.driver.Silence(errTest)
	b.Expect(b.Work(t.Context())).NotTo(Succeed(), "the removal fails")
	b.expectSaid(one, metav1.ConditionUnknown, v1alpha1.ReasonDriverUnreachable, "said by the test")
	b.expectFinalizer(gone, true)
	b.Expect(b.driver.Calls()).To(HaveLen(1))
	b.driver.Silence(nil)
	b.round(1)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
}

func TestWhatWasNotCheckedJustNowIsNotReady(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.running(one)
	observed := clusterdriver.Observed{Name: one.Name, UID: string(one.UID), Version: "v1.37", CredentialExpires: b.Clock.Now().Add(time.Hour)}
	for reason, change := range map[string]func(*clusterdriver.Observed){
		v1alpha1.ReasonUnknown: func(o *clusterdriver.Observed) {
			o.Phase, o.Checked = clusterdriver.Running, b.Clock.Now().Add(-freshness-time.Second)
		},
		v1alpha1.ReasonControlPlaneFailed: func(o *clusterdriver.Observed) { o.Phase, o.Message = clusterdriver.Failed, "it crashes" },
		v1alpha1.ReasonStarting:           func(o *clusterdriver.Observed) { o.Phase = clusterdriver.Starting },
		v1alpha1.ReasonDeleting:           func(o *clusterdriver.Observed) { o.Phase = clusterdriver.Removing },
	} {
		now := observed
		change(&now)
		b.driver.Set(now)
		b.round(1)
		condition := b.ReadCondition(one, v1alpha1.ControlPlaneReadyCondition)
		b.Expect(condition.Status).NotTo(Equal(metav1.ConditionTrue), reason)
		b.Expect(condition.Reason).To(Equal(reason))
		b.Expect(condition.Message).To(ContainSubstring(now.Message))
	}
}

// Claim: A restarted agent asks for a certificate with another key. Broken: a certificate of another key is handed on; it waits forever.
func TestARestartLosesNothingButTheKey(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.round(1)
	first := b.request(one)
	b.restart(b.driver)
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(2)
	b.Expect(b.driver.Calls()).To(BeEmpty())
	b.Expect(b.request(one).UID).NotTo(Equal(first.UID))
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(2)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")

	// One that runs needs no other credential.
	second := b.request(one)
	b.restart(b.driver)
	b.round(2)
	b.Expect(b.request(one).UID).To(Equal(second.UID))
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
}

// Claim: An expired credential is replaced. Broken: the expiry is not looked at; the old certificate is given again.
func TestAnExpiredCredentialIsReplaced(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.running(one)
	expired := b.driver.Desired(one.Name).Credential
	b.driver.Set(clusterdriver.Observed{Name: one.Name, UID: string(one.UID), Phase: clusterdriver.Running, Version: "v1.37", CredentialExpires: b.Clock.Now()})
	b.round(2)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(2)
	b.Expect(b.driver.Desired(one.Name).Credential.Key).NotTo(Equal(expired.Key))
	b.Expect(b.driver.Calls()).To(HaveLen(2))
}

func TestADeniedCertificateIsToldAndAskedForAgain(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.round(1)
	b.decide(one, certificatesv1.CertificateDenied)
	b.round(1)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonAwaitingCredential, "was denied: Test: said by the test")
	denied := b.request(one)
	b.Clock.Step(time.Minute)
	b.round(2)
	b.Expect(b.request(one).UID).NotTo(Equal(denied.UID))
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(2)
	b.Expect(b.driver.Calls()).To(HaveLen(1))
}

// Claim: An unsupported version is refused with field and remedy. Broken: it is asked for; the spec goes down as observed.
func TestAVersionThatCannotBeRunIsRefused(t *testing.T) {
	b := newEnv(t)
	one := b.newOne(func(one *v1alpha1.SimulatedCluster) { one.Spec.Versions.ControlPlane = "v1.34" })
	b.round(2)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonVersionNotSupported, "spec.versions.controlPlane: the host cannot run v1.34: choose one of v1.37, v1.36")
	b.expectFinalizer(one, false)
	b.Expect(b.request(one)).To(BeNil())
	b.patch(one, `{"spec":{"versions":{"controlPlane":"v1.36.4"}}}`)
	b.created(one, metav1.ConditionTrue)
	b.round(1)
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(1)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonVersionNotSupported, "cannot run v1.36.4")
	b.patch(one, `{"spec":{"versions":{"controlPlane":"v1.36"}}}`)
	b.created(one, metav1.ConditionTrue)
	b.round(2)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
}

func TestAnotherVersionIsUpdatingUntilItRuns(t *testing.T) {
	b := newEnv(t)
	one := b.newOne(func(one *v1alpha1.SimulatedCluster) { one.Spec.Versions.ControlPlane = "v1.36" })
	b.running(one)
	b.driver.Linger()
	b.patch(one, `{"spec":{"versions":{"controlPlane":"v1.37"}}}`)
	b.round(1)
	b.Expect(b.ReadCondition(one, v1alpha1.ControlPlaneReadyCondition).ObservedGeneration).To(BeNumerically("<", one.Generation))
	b.created(one, metav1.ConditionTrue)
	b.round(2)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonUpdating, "It runs v1.36 and is being brought to v1.37")
	b.Expect(b.driver.Calls()).To(HaveLen(2))
}

func TestRefusalsAreTold(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.round(1)
	b.decide(one, certificatesv1.CertificateApproved)
	for refusal, reason := range map[clusterdriver.Refusal]string{
		clusterdriver.NoRoom: v1alpha1.ReasonInsufficientResources, clusterdriver.NameTaken: v1alpha1.ReasonNameTaken,
		clusterdriver.BeingRemoved: v1alpha1.ReasonStarting, clusterdriver.Invalid: v1alpha1.ReasonControlPlaneFailed,
		clusterdriver.Changing: v1alpha1.ReasonUpdating, clusterdriver.Downgrade: v1alpha1.ReasonControlPlaneDowngrade,
	} {
		b.driver.Fail("Ensure "+one.Name, &clusterdriver.RefusedError{Refusal: refusal, Problem: "said by the test"})
		b.round(1)
		b.expectSaid(one, metav1.ConditionFalse, reason, "said by the test")
	}
	b.round(2)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
}

// Claim: One bad SimulatedCluster stops no other. Broken: the first error ends the round.
func TestOneThatFailsStopsNoOther(t *testing.T) {
	b := newEnv(t)
	bad, good := b.newOne(), b.newOne()
	b.round(1)
	b.decide(bad, certificatesv1.CertificateApproved)
	b.decide(good, certificatesv1.CertificateApproved)
	for range 2 {
		b.driver.Fail("Ensure "+bad.Name, errTest)
		b.Expect(b.Work(t.Context())).To(MatchError(ContainSubstring(bad.Name)))
	}
	b.expectSaid(bad, metav1.ConditionUnknown, v1alpha1.ReasonDriverUnreachable, "said by the test")
	b.expectSaid(good, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	b.round(2)
	b.expectSaid(bad, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
}

// Claim: A restored SimulatedCluster neither takes over nor removes what runs. Broken: the driver's UID is not compared.
func TestARestoredSimulatedClusterTakesNothingOver(t *testing.T) {
	b := newEnv(t)
	earlier := clusterdriver.Observed{UID: "earlier", Phase: clusterdriver.Running, Version: "v1.37", CredentialExpires: b.Clock.Now().Add(time.Hour)}
	one := b.newOne()
	earlier.Name = one.Name
	b.driver.Set(earlier)
	b.round(2)
	b.expectSaid(one, metav1.ConditionFalse, v1alpha1.ReasonNameTaken, "of UID earlier")
	b.Expect(one.Status.Versions).To(BeNil())
	b.Expect(b.request(one)).To(BeNil())

	// It was started before the other one was found.
	b.patch(one, `{"metadata":{"finalizers":["`+v1alpha1.ClusterFinalizer+`","`+v1alpha1.SimulatedClusterFinalizer+`"]}}`)
	b.deleted(one)
	b.round(1)
	b.expectFinalizer(one, false)
	inventory, err := b.driver.List(t.Context())
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(inventory.Clusters).To(ConsistOf(HaveField("UID", "earlier")))
}

// Claim: What no SimulatedCluster asks for is left alone. Broken: what is not listed is removed.
func TestWhatNobodyAsksForIsLeftAlone(t *testing.T) {
	b := newEnv(t)
	b.driver.Set(clusterdriver.Observed{Name: "orphan", UID: "u", Phase: clusterdriver.Running})
	b.round(2)
	b.Expect(b.unclaimed).To(Equal([]string{"orphan"}))
	b.Expect(b.driver.Calls()).To(BeEmpty())
}

func TestWhatIsLostIsMadeAgain(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.running(one)
	b.driver.Finish(one.Name)
	b.round(2)
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(2)
	b.expectSaid(one, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	b.Expect(b.driver.Calls()).To(HaveLen(2))
}

// Claim: An agent that is turned off leaves readiness Unknown. Broken: Ready stays.
func TestTurnedOffIsUnknown(t *testing.T) {
	b := newEnv(t)
	one := b.newOne()
	b.running(one)
	b.restart(nil)
	b.Expect(b.Start(t.Context())).To(Succeed(), "it has nothing more to do")
	b.expectSaid(one, metav1.ConditionUnknown, v1alpha1.ReasonHostNotAllowed, "turn it on")
	b.expectFinalizer(one, true)
}

// Rounds are the rarer the longer nothing happens, and a change is waited for.
func TestRoundsFollowChanges(t *testing.T) {
	b := newEnv(t)
	b.round(1)
	waited := make(chan time.Duration, 1)
	go func() { waited <- b.awaitRound(t.Context()) }()
	one := b.newOne()
	b.Eventually(waited).WithTimeout(time.Minute).Should(Receive(Equal(breath)))
	b.round(1)
	b.Expect(b.unsettled).NotTo(BeZero())
	b.decide(one, certificatesv1.CertificateApproved)
	b.round(2)
	b.Expect(b.unsettled).To(BeZero())
	b.Expect(b.known).To(HaveKey(one.UID))
}
