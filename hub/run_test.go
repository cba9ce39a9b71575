package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/hub/internal/logging"
	"github.com/hollowfleet/hollowfleet/internal/testenv"
)

var environment *testenv.Environment

func TestMain(m *testing.M) { hubtest.Main(m, &environment) }

// running is a hub in this process, with the rights of its service account and no others.
type running struct {
	*WithT
	t       *testing.T
	direct  client.WithWatch
	writes  hubtest.Writes
	refused hubtest.Writes
	health  string
	metrics string
	pprof   string
	stop    func() error
}

func (r *running) RoundTrip(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	what := request.Method + " " + request.URL.Path
	if err == nil && response.StatusCode == http.StatusForbidden {
		r.refused.Add(what)
	}
	if request.Method != http.MethodGet && !strings.HasSuffix(request.URL.Path, "/leases/hollowfleet-hub") {
		r.writes.Add(request.Method + " " + resourceOf(request.URL.Path))
	}
	return response, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// object matches a path of the API server: an optional namespace, a resource, an optional name and subresource.
var object = regexp.MustCompile(`^/(?:api|apis/[^/]+)/v[^/]+(?:/namespaces/[^/]+)?/([^/]+)(?:/[^/]+(/[^/]+)?)?$`)

// resourceOf turns a path into "machines" or "machinesets/status".
func resourceOf(path string) string {
	if parts := object.FindStringSubmatch(path); parts != nil {
		return parts[1] + parts[2]
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func start(t *testing.T, change ...func(*hub.Options)) *running {
	t.Helper()
	r := &running{WithT: NewWithT(t), t: t, direct: hubtest.Client(t, environment), health: freeAddress(t), metrics: freeAddress(t), pprof: freeAddress(t)}
	r.Expect(hub.Install(t.Context(), environment.Config)).To(Succeed())
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:hollowfleet-system:hollowfleet-hub"}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return r.RoundTrip(request, next) })
	})
	logger, err := logging.New(os.Stderr, logging.Text, 0)
	r.Expect(err).NotTo(HaveOccurred())
	// Not of t.Context, which ends before the clean-up does.
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	options := hub.Options{Config: config, HealthAddress: r.health, MetricsAddress: r.metrics, PprofAddress: r.pprof, Logger: logger}
	for _, edit := range change {
		edit(&options)
	}
	go func() { done <- hub.Run(ctx, options) }()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(hub.DefaultShutdownTimeout + 5*time.Second):
			return fmt.Errorf("the hub did not stop")
		}
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	r.Eventually(func() int { return r.get(r.health, "/readyz") }).WithTimeout(time.Minute).Should(Equal(http.StatusOK))
	return r
}

func (r *running) get(address, path string) int {
	response, err := http.Get("http://" + address + path)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestHubServesProfilesWhereAsked(t *testing.T) {
	r := start(t)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=1"} {
		r.Eventually(func() int { return r.get(r.pprof, path) }).WithTimeout(time.Minute).Should(Equal(http.StatusOK), path)
	}
	r.Expect(r.get(r.health, "/debug/pprof/")).To(Equal(http.StatusNotFound), "nowhere else")
	r.Expect(r.get(r.metrics, "/debug/pprof/")).NotTo(Equal(http.StatusOK), "nowhere else")
}

// measured is what the hub tells Prometheus.
func (r *running) measured() string {
	r.t.Helper()
	response, err := http.Get("http://" + r.metrics + "/metrics")
	r.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	r.Expect(err).NotTo(HaveOccurred())
	return string(body)
}

func (r *running) deployment(replicas int32) *v1alpha1.MachineDeployment {
	r.t.Helper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: hubtest.Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	hubtest.Create(r.t, r.direct, cluster)
	r.Eventually(func() string {
		r.Expect(r.direct.Get(r.t.Context(), client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
		return cluster.Status.Namespace
	}).WithTimeout(30 * time.Second).Should(Equal(cluster.Name))
	labels := map[string]string{"app": "x"}
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: "pool"},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: cluster.Name, Replicas: &replicas,
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: hubtest.Template(labels),
		},
	}
	hubtest.Create(r.t, r.direct, deployment)
	return deployment
}

// become waits until deployment has count available Machines; meanwhile the test does the agent's work.
func (r *running) become(deployment *v1alpha1.MachineDeployment, count int32) {
	r.t.Helper()
	r.Eventually(func(g Gomega) {
		hubtest.FinishDeletions(r.t, r.direct, deployment.Namespace)
		for _, machine := range hubtest.Machines(r.t, r.direct, deployment.Namespace) {
			if !meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
				hubtest.MarkReady(r.t, r.direct, &machine, true, time.Now().Add(-time.Second))
			}
		}
		g.Expect(r.direct.Get(r.t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		g.Expect(deployment.Status.ObservedGeneration).To(Equal(deployment.Generation))
		g.Expect(deployment.Status.AvailableReplicas).To(Equal(count))
		g.Expect(deployment.Status.Replicas).To(Equal(count))
		g.Expect(deployment.Status.UpdatedReplicas).To(Equal(count))
	}).WithTimeout(3 * time.Minute).WithPolling(500 * time.Millisecond).Should(Succeed())
}

func TestHubWritesOncePerMachineAndNothingAtRest(t *testing.T) {
	const machines = 200
	r := start(t)
	deployment := r.deployment(machines)
	r.become(deployment, machines)
	writes := r.writes.Counts()
	total := 0
	for _, count := range writes {
		total += count
	}
	t.Logf("hub writes for 0 to %d machines: %v: %.2f per machine", machines, writes, float64(total)/machines)
	r.Expect(writes).To(HaveKeyWithValue("POST machines", machines))
	for what := range writes {
		r.Expect(what).NotTo(HavePrefix("PATCH machines/"), "the agent alone writes a Machine's status")
	}
	r.Expect(total-machines).To(BeNumerically("<=", 60), "all writes that are not creations of Machines")
	r.Expect(r.refused.Counts()).To(BeEmpty(), "the hub's role must allow all that it does")

	// The counts of the Cluster come last, up to a pace later.
	r.Eventually(func() int32 {
		cluster := &v1alpha1.Cluster{}
		r.Expect(r.direct.Get(t.Context(), client.ObjectKey{Name: deployment.Namespace}, cluster)).To(Succeed())
		if cluster.Status.Machines == nil {
			return 0
		}
		return cluster.Status.Machines.Ready
	}).WithTimeout(30 * time.Second).Should(BeEquivalentTo(machines))
	r.Eventually(r.writes.Total).WithTimeout(30 * time.Second).WithPolling(6 * time.Second).Should(BeZero())
	r.Consistently(r.writes.Counts).WithTimeout(12*time.Second).WithPolling(time.Second).Should(BeEmpty(), "at rest the hub writes nothing but its own lease")
}

func TestHubRollsOutScalesAndFreezes(t *testing.T) {
	r := start(t)
	deployment := r.deployment(3)
	r.become(deployment, 3)
	r.update(deployment, func() {
		deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
		deployment.Spec.Replicas = new(int32(5))
	})
	r.become(deployment, 5)
	for _, machine := range hubtest.Machines(t, r.direct, deployment.Namespace) {
		r.Expect(machine.Spec.Versions.Kubelet).To(Equal("v1.37.0"))
	}
	r.update(deployment, func() { deployment.Spec.Replicas = new(int32(2)) })
	r.become(deployment, 2)

	cluster := &v1alpha1.Cluster{}
	r.Expect(r.direct.Get(t.Context(), client.ObjectKey{Name: deployment.Namespace}, cluster)).To(Succeed())
	cluster.Annotations = map[string]string{v1alpha1.FreezeAnnotation: "test"}
	r.Expect(r.direct.Update(t.Context(), cluster)).To(Succeed())
	frozen := func() bool {
		r.Expect(r.direct.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		return meta.IsStatusConditionTrue(deployment.Status.Conditions, v1alpha1.FrozenCondition)
	}
	r.Eventually(frozen).WithTimeout(30*time.Second).Should(BeTrue(), "the freeze of a cluster wakes its deployments")
	r.update(deployment, func() { deployment.Spec.Replicas = new(int32(0)) })
	r.Consistently(func() []v1alpha1.Machine { return hubtest.Machines(t, r.direct, deployment.Namespace) }).
		WithTimeout(3 * time.Second).Should(HaveEach(HaveField("DeletionTimestamp", BeNil())))
	r.Expect(r.direct.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
	cluster.Annotations = nil
	r.Expect(r.direct.Update(t.Context(), cluster)).To(Succeed())
	r.become(deployment, 0)
	r.Expect(frozen()).To(BeFalse())
	r.Expect(r.refused.Counts()).To(BeEmpty(), "the hub's role must allow all that it does")
}

func (r *running) update(deployment *v1alpha1.MachineDeployment, change func()) {
	r.t.Helper()
	r.Eventually(func() error {
		r.Expect(r.direct.Get(r.t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		change()
		return r.direct.Update(r.t.Context(), deployment)
	}).Should(Succeed())
}

func TestHubFreezesASurplusAndThawsByItself(t *testing.T) {
	r := start(t)
	deployment := r.deployment(2)
	r.become(deployment, 2)
	sets := &v1alpha1.MachineSetList{}
	r.Expect(r.direct.List(t.Context(), sets, client.InNamespace(deployment.Namespace))).To(Succeed())
	set := &sets.Items[0]
	var together sync.WaitGroup
	for range 20 {
		together.Go(func() {
			hubtest.Create(t, r.direct, &v1alpha1.Machine{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: set.Namespace, GenerateName: "intruder-", Labels: set.Spec.Template.Metadata.Labels,
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
				},
				Spec: v1alpha1.MachineSpec{ClusterName: set.Namespace, MachineTemplateBody: set.Spec.Template.Spec},
			})
		})
	}
	together.Wait()
	frozen := func(g Gomega, want bool) {
		for object, list := range map[client.Object]*[]metav1.Condition{deployment: &deployment.Status.Conditions, set: &set.Status.Conditions} {
			g.Expect(r.direct.Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
			condition := meta.FindStatusCondition(*list, v1alpha1.FrozenCondition)
			g.Expect(condition).NotTo(BeNil())
			if want {
				g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), "%T: %v", object, condition)
				g.Expect(condition.Reason).To(Equal(v1alpha1.ReasonOvershoot))
				g.Expect(object.GetLabels()).To(HaveKeyWithValue(v1alpha1.FrozenLabel, v1alpha1.ReasonOvershoot))
			} else {
				g.Expect(condition.Status).To(Equal(metav1.ConditionFalse), "%T: %v", object, condition)
				g.Expect(object.GetLabels()).NotTo(HaveKey(v1alpha1.FrozenLabel))
			}
		}
	}
	r.Eventually(frozen).WithArguments(true).WithTimeout(time.Minute).Should(Succeed())
	r.Expect(r.measured()).To(MatchRegexp(`hollowfleet_frozen{reason="Overshoot",scope="machinedeployment"} 1`))
	left := len(hubtest.Machines(t, r.direct, set.Namespace))
	r.Consistently(func(g Gomega) {
		frozen(g, true)
		g.Expect(hubtest.Machines(t, r.direct, set.Namespace)).To(HaveLen(left), "frozen means frozen")
	}).WithTimeout(5 * time.Second).WithPolling(time.Second).Should(Succeed())

	for _, machine := range hubtest.Machines(t, r.direct, set.Namespace) {
		if strings.HasPrefix(machine.Name, "intruder-") {
			r.Expect(r.direct.Delete(t.Context(), &machine)).To(Succeed())
		}
	}
	r.Eventually(frozen).WithArguments(false).WithTimeout(time.Minute).Should(Succeed())
	r.become(deployment, 2)
	r.Expect(r.refused.Counts()).To(BeEmpty(), "the hub's role must allow all that it does")
}

func TestLeaseDecidesWhetherTheAgentIsConnected(t *testing.T) {
	r := start(t)
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: hubtest.Name()}}
	cluster.Spec = v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted, Heartbeat: v1alpha1.Heartbeat{PeriodSeconds: 1, GraceSeconds: 4}}
	hubtest.Create(t, r.direct, cluster)
	connected := func() string {
		r.Expect(r.direct.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
		condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
		if condition == nil || cluster.Status.Namespace == "" {
			return ""
		}
		return string(condition.Status) + " " + condition.Reason
	}
	r.Eventually(connected).WithTimeout(30 * time.Second).Should(Equal("Unknown " + v1alpha1.ReasonNeverSeen))
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: "m"},
		Spec:       v1alpha1.MachineSpec{ClusterName: cluster.Name, MachineTemplateBody: hubtest.Template(nil).Spec},
	}
	hubtest.Create(t, r.direct, machine)
	hubtest.MarkReady(t, r.direct, machine, true, time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: v1alpha1.AgentLeaseName}}
	hubtest.Create(t, r.direct, lease)
	renew := func() string {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		r.Expect(r.direct.Update(t.Context(), lease)).To(Succeed())
		return connected()
	}
	r.Eventually(renew).WithTimeout(30 * time.Second).Should(Equal("True " + v1alpha1.ReasonLeaseRenewed))
	version := cluster.ResourceVersion
	r.Consistently(renew).WithTimeout(8 * time.Second).WithPolling(time.Second).Should(Equal("True " + v1alpha1.ReasonLeaseRenewed))
	r.Expect(cluster.ResourceVersion).To(Equal(version), "renewals cause no write")
	r.Eventually(connected).WithTimeout(30 * time.Second).Should(Equal("Unknown " + v1alpha1.ReasonLeaseExpired))
	r.Expect(meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.FrozenCondition)).To(BeTrue())
	stale := func() []metav1.Condition {
		machine := hubtest.Machines(t, r.direct, cluster.Name)[0]
		r.Expect(meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition)).To(BeTrue(), "readiness is what was known last")
		return machine.Status.Conditions
	}
	marker := HaveField("Type", v1alpha1.MachineStaleCondition)
	r.Eventually(stale).WithTimeout(30 * time.Second).Should(ContainElement(marker))
	r.Eventually(renew).WithTimeout(30 * time.Second).Should(Equal("True " + v1alpha1.ReasonLeaseRenewed))
	r.Eventually(func() []metav1.Condition { renew(); return stale() }).WithTimeout(30 * time.Second).ShouldNot(ContainElement(marker))
	r.Expect(r.refused.Counts()).To(BeEmpty(), "the hub's role must allow all that it does")
}

func TestHubServesHealthAndMetricsAndGivesItsLeaseUp(t *testing.T) {
	r := start(t)
	r.Expect(r.get(r.health, "/healthz")).To(Equal(http.StatusOK))
	r.deployment(1)
	r.Eventually(r.measured).WithTimeout(30 * time.Second).Should(And(ContainSubstring("hollowfleet_hub_machines_created_total"), ContainSubstring("hollowfleet_hub_cluster_frozen")))
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: hub.DefaultNamespace, Name: "hollowfleet-hub"}
	r.Expect(r.direct.Get(t.Context(), key, lease)).To(Succeed())
	r.Expect(lease.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
	r.Expect(r.stop()).To(Succeed(), "an end that was asked for is no error")
	r.Expect(r.direct.Get(t.Context(), key, lease)).To(Succeed())
	r.Expect(lease.Spec.HolderIdentity).To(HaveValue(BeEmpty()), "the next hub need not wait for the lease to expire")
}

func TestSecondHubWaitsAndTakesOver(t *testing.T) {
	first := start(t)
	first.become(first.deployment(1), 1)
	second := start(t)
	second.become(second.deployment(1), 1)
	second.Expect(second.writes.Counts()).To(BeEmpty(), "a hub that is not elected works")
	second.Expect(first.stop()).To(Succeed())
	second.become(second.deployment(1), 1)
	second.Expect(second.writes.Counts()).To(HaveKeyWithValue("POST machines", 1))
}

func TestHubStopsBeforeItHasSeenItsObjects(t *testing.T) {
	g := NewWithT(t)
	g.Expect(hub.Install(t.Context(), environment.Config)).To(Succeed())
	asked := make(chan struct{}, 1)
	config := rest.CopyConfig(environment.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if resourceOf(request.URL.Path) != "machines" {
				return next.RoundTrip(request)
			}
			select {
			case asked <- struct{}{}:
			default:
			}
			return nil, errors.New("the test lets nobody read Machines")
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	r := &running{WithT: g, t: t, health: freeAddress(t)}
	go func() {
		done <- hub.Run(ctx, hub.Options{Config: config, HealthAddress: r.health, MetricsAddress: "0", NoLeaderElection: true})
	}()
	g.Eventually(asked).WithTimeout(time.Minute).Should(Receive())
	g.Eventually(func() int { return r.get(r.health, "/healthz") }).WithTimeout(time.Minute).Should(Equal(http.StatusOK))
	unready := func() int { return r.get(r.health, "/readyz") }
	g.Eventually(unready).WithTimeout(time.Minute).Should(Equal(http.StatusInternalServerError))
	g.Consistently(unready).Should(Equal(http.StatusInternalServerError))
	cancel()
	g.Eventually(done).WithTimeout(hub.DefaultShutdownTimeout + time.Minute).Should(Receive(BeNil()))
}

func TestWrongOptionsAreRefused(t *testing.T) {
	for name, options := range map[string]hub.Options{
		"negative concurrency": {Concurrency: -1}, "negative timeout": {ShutdownTimeout: -1}, "negative QPS": {KubeAPIQPS: -1},
		"no such kubeconfig": {Kubeconfig: "/does/not/exist"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(hub.Run(t.Context(), options)).NotTo(Succeed())
		})
	}
}
