package clusterstatus

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/checks"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// env is a Reporter of a real Cluster, whose agent knows what the test says.
type env struct {
	admin   client.Client
	name    string
	changes chan struct{}

	hub stranger
	memory
	link link

	mu      sync.Mutex
	cluster *v1alpha1.Cluster
	state   freeze.State
}

// stranger is a hub identity that finds what the test says.
type stranger struct {
	mu      sync.Mutex
	finding string
	met     int
}

// memory is what an agent knows of when it could act.
type memory struct {
	mu               sync.Mutex
	acted, remembers freeze.Uptime
}

func (m *memory) Uptime() freeze.Uptime {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.acted
}

func (m *memory) Remember(intervals freeze.Uptime) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remembers = intervals
}

func (s *stranger) find(finding string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finding = finding
}

func (s *stranger) CheckLease(context.Context, *coordinationv1.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.met++
	return nil
}

func (s *stranger) Renewing(context.Context, *coordinationv1.Lease) {}
func (s *stranger) Renewed(*coordinationv1.Lease)                   {}

func (s *stranger) Blocked() (freeze.Blocker, bool) {
	finding, _ := s.Finding()
	return freeze.Blocker{Reason: v1alpha1.ReasonHubRestored}, finding != ""
}

func (s *stranger) Finding() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finding, true
}

func (b *env) set(state freeze.State) {
	b.mu.Lock()
	b.state = state
	b.mu.Unlock()
	b.changes <- struct{}{}
}

// Notify implements Freeze.
func (b *env) Notify() {}

// Refresh makes the env the freeze monitor of its reporter.
func (b *env) Refresh() freeze.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// Seen implements clients.ClusterCache.
func (b *env) Seen(cluster *v1alpha1.Cluster) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cluster = cluster
}

// Cluster implements clients.ClusterCache.
func (b *env) Cluster() *v1alpha1.Cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cluster
}

// refresh is what the probe of the hub does every few seconds.
func (b *env) refresh(g *WithT) *v1alpha1.Cluster {
	cluster := &v1alpha1.Cluster{}
	g.Expect(b.admin.Get(context.Background(), client.ObjectKey{Name: b.name}, cluster)).To(Succeed())
	b.Seen(cluster)
	return cluster
}

// fixedFacts are those of every test.
type fixedFacts struct{}

func (fixedFacts) Target() (uid, version string) { return "uid-1", "v1.37.1" }

func (fixedFacts) Capacity(context.Context) corev1.ResourceList { return cores("12") }

func (fixedFacts) Orphans() (orphans *v1alpha1.Orphans, known bool) { return nil, false }

func (fixedFacts) Checks() checks.Result { return checks.Result{} }

func newEnv(t *testing.T) *env {
	t.Helper()
	g := NewWithT(t)
	b := &env{admin: agenttest.Environment(t).Client, changes: make(chan struct{}, 1), state: thawed()}
	b.name = agenttest.Namespace(t, b.admin)
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: b.name}}
	cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
	cluster.Spec.Heartbeat = v1alpha1.Heartbeat{PeriodSeconds: 1, GraceSeconds: 5}
	g.Expect(b.admin.Create(t.Context(), cluster)).To(Succeed())
	b.refresh(g)
	lease := NewLeaseHolder(clock.RealClock{})
	lease.Identify("me", nil)
	reporter, err := New(Deps{
		Client: b.link.client(t, b.name), Last: b, Facts: fixedFacts{}, Freeze: b, Changes: b.changes, HubIdentity: &b.hub, Lease: lease, AgentVersion: "v9",
		Runtime: poll.Runtime{Clock: clock.RealClock{}, Log: logr.Discard()},
	})
	g.Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer close(done); _ = reporter.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

// join is what the hub does when it accepts a cluster.
func (b *env) join(g *WithT) {
	cluster := b.refresh(g)
	cluster.Status.Namespace = b.name
	cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ClusterJoinedCondition, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now(),
	})
	g.Expect(b.admin.Status().Update(context.Background(), cluster)).To(Succeed())
	b.refresh(g)
}

func (b *env) lease() (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, b.admin.Get(context.Background(), client.ObjectKey{Namespace: b.name, Name: v1alpha1.AgentLeaseName}, lease)
}

func TestReporter(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	g.Consistently(func() error { _, err := b.lease(); return err }).WithTimeout(1500*time.Millisecond).
		ShouldNot(Succeed(), "a Lease was written before the hub had made the namespace")
	b.join(g)

	g.Eventually(func(g Gomega) {
		lease, err := b.lease()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(*lease.Spec.HolderIdentity).To(Equal("me"))
		g.Expect(*lease.Spec.LeaseDurationSeconds).To(BeEquivalentTo(5))
		cluster := b.refresh(NewWithT(t))
		g.Expect(cluster.Status.ClusterUID).To(Equal("uid-1"))
		g.Expect(cluster.Status.KubernetesVersion).To(Equal("v1.37.1"))
		g.Expect(cluster.Status.AgentVersion).To(Equal("v9"))
		g.Expect(cluster.Status.Capacity.Cpu().String()).To(Equal("12"))
		g.Expect(meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterTargetReachableCondition)).To(BeTrue())
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	g.Expect(b.refresh(g).Status.Namespace).To(Equal(b.name), "what the hub wrote has gone")
	g.Expect(meta.IsStatusConditionTrue(b.refresh(g).Status.Conditions, v1alpha1.ClusterJoinedCondition)).To(BeTrue())

	// At rest the Lease is renewed and the Cluster is not written.
	version := b.refresh(g).ResourceVersion
	first, err := b.lease()
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (time.Time, error) {
		lease, err := b.lease()
		return lease.Spec.RenewTime.Time, err
	}).WithTimeout(agenttest.Wait).Should(BeTemporally(">", first.Spec.RenewTime.Add(1500*time.Millisecond)), "two renewals")
	g.Expect(b.refresh(g).ResourceVersion).To(Equal(version), "the Cluster was written at rest")

	// A freeze is told at once, and the Lease continues.
	b.set(frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, "Timeout"))
	g.Eventually(func() bool {
		return meta.IsStatusConditionTrue(b.refresh(g).Status.Conditions, v1alpha1.ClusterAgentFrozenCondition)
	}).WithTimeout(3*time.Second).Should(BeTrue(), "long before the next look at the status")
	failing := func(outcome freeze.Outcome, message string) freeze.State {
		state := frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, message)
		state.Endpoints[1].LastOutcome = outcome
		return state
	}
	said := func() string {
		return meta.FindStatusCondition(b.refresh(g).Status.Conditions, v1alpha1.ClusterTargetReachableCondition).Message
	}
	b.set(failing(freeze.Unauthorized, "the credential is not accepted"))
	g.Eventually(said).WithTimeout(agenttest.Wait).Should(Equal("the credential is not accepted"), "the probe fails in another way")
	b.set(failing(freeze.Unauthorized, "in other words"))
	b.set(failing(freeze.Unauthorized, "and in others")) // It is taken when the one before has been looked at.
	g.Expect(said()).To(Equal("the credential is not accepted"), "another text is no news")
	before, err := b.lease()
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (time.Time, error) {
		lease, err := b.lease()
		return lease.Spec.RenewTime.Time, err
	}).WithTimeout(agenttest.Wait).Should(BeTemporally(">", before.Spec.RenewTime.Time))
}

func TestALeaseThatWasTakenAwayComesBack(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	b.join(g)
	var lease *coordinationv1.Lease
	g.Eventually(func() (err error) { lease, err = b.lease(); return err }).WithTimeout(agenttest.Wait).Should(Succeed())
	g.Expect(b.admin.Delete(t.Context(), lease)).To(Succeed())
	g.Eventually(func() error { _, err := b.lease(); return err }).WithTimeout(agenttest.Wait).Should(Succeed())
}

func TestTheLeaseHandsOnWhenAgentsCouldAct(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before, own := freeze.Interval{From: begin, To: begin.Add(time.Hour)}, freeze.Interval{From: begin.Add(2 * time.Hour), To: begin.Add(3 * time.Hour)}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: v1alpha1.AgentLeaseName}}
	lease.Annotations = map[string]string{v1alpha1.ActedAnnotation: freeze.Uptime{before}.String()}
	g.Expect(b.admin.Create(t.Context(), lease)).To(Succeed())
	b.memory.mu.Lock()
	b.memory.acted = freeze.Uptime{before, own}
	b.memory.mu.Unlock()
	b.join(g)
	g.Eventually(func(g Gomega) {
		lease, err := b.lease()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(freeze.ParseUptime(lease.Annotations[v1alpha1.ActedAnnotation])).To(Equal(freeze.Uptime{before, own}))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	g.Expect(b.memory.remembers).To(Equal(freeze.Uptime{before}), "read before the first renewal, and not again while the Lease is held")
}

func TestAFindingIsToldWithTheLease(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	b.hub.find("f1")
	b.join(g)
	g.Eventually(func() error { _, err := b.lease(); return err }).WithTimeout(agenttest.Wait).Should(Succeed())
	g.Expect(b.refresh(g).Status.UnacknowledgedHub).To(Equal("f1"), "before the first renewal")
	b.hub.find("")
	b.set(thawed())
	g.Eventually(func() string { return b.refresh(g).Status.UnacknowledgedHub }).WithTimeout(agenttest.Wait).Should(BeEmpty())
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	g.Expect(b.hub.met).To(Equal(1), "renewals that follow on one another prove the hub themselves")
}
