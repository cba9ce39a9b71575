// Package loadtruth holds the reports of load tests against what it watches itself, at the API servers, while things go wrong.
package loadtruth

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	pool         = "loaded"
	nodesOfEach  = 2
	podOnPool    = "apiVersion: v1\nkind: Pod\nspec: {terminationGracePeriodSeconds: 1, nodeSelector: {pool: loaded}, containers: [{name: c, image: none}]}"
	everySecond  = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {{if eq (mod .Index 2) 1}}{hollowfleet.io/image-pull-fails: \"true\"}{{else}}{}{{end}}\nspec: {terminationGracePeriodSeconds: 1, nodeSelector: {pool: loaded}, containers: [{name: c, image: none}]}"
	plainMap     = "apiVersion: v1\nkind: ConfigMap\ndata: {index: \"{{.Index}}\"}"
	deployedPods = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 12\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n    spec: {terminationGracePeriodSeconds: 1, nodeSelector: {pool: loaded}, containers: [{name: c, image: none}]}"
)

var fleet *fleettest.Fleet

// Claim: Reports agree with a witness at the API servers. Broken: latency from when a request was sent; unready pods forgotten; no pulse; the age of a late pod not asked for; the clusters' own thresholds not counted; no look at hollow nodes that stand still.
func TestLoadTruth(t *testing.T) {
	fleettest.Run(t, "Load truth")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.Start(ctx, localfleet.Options{Clusters: []string{"c1", "c2", "c3"}})
	for _, member := range fleet.Members {
		fleet.NewDeployment(ctx, member, pool, nodesOfEach)
	}
	for _, member := range fleet.Members {
		fleet.ExpectReady(ctx, member, pool, nodesOfEach)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			for _, node := range fleettest.NodesOf(ctx, g, member, pool) {
				lease := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}
				g.Expect(member.Client.Get(ctx, lease, &coordinationv1.Lease{})).To(Succeed())
			}
		}).Should(Succeed())
	}
}, NodeTimeout(2*fleettest.StartTimeout))

// start makes a LoadTest in the clusters of these members, each of which has its own label of its name.
func start(ctx context.Context, name string, load v1alpha1.Load, clusters ...string) *v1alpha1.LoadTest {
	GinkgoHelper()
	test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.LoadTestSpec{ClusterSelector: &metav1.LabelSelector{}, Load: &load}}
	if len(clusters) > 0 {
		for _, cluster := range clusters {
			label := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"metadata":{"labels":{%q:"yes"}}}`, name))
			Expect(fleet.HubClient.Patch(ctx, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}, label)).To(Succeed())
		}
		test.Spec.ClusterSelector.MatchLabels = map[string]string{name: "yes"}
	}
	Expect(fleet.HubClient.Create(ctx, test)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, test))).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			runs := &v1alpha1.LoadTestRunList{}
			g.Expect(fleet.HubClient.List(ctx, runs)).To(Succeed())
			g.Expect(runs.Items).To(BeEmpty())
		}).Should(Succeed(), "runs go one at a time in a cluster")
	}, NodeTimeout(fleettest.Patience))
	return test
}

// runOf is the run of a test in a cluster.
func runOf(ctx context.Context, g Gomega, test *v1alpha1.LoadTest, cluster string) *v1alpha1.LoadTestRun {
	run := &v1alpha1.LoadTestRun{}
	g.Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Namespace: cluster, Name: test.Name}, run)).To(Succeed())
	return run
}

// reaches waits until the run of a cluster does a step.
func reaches(ctx context.Context, test *v1alpha1.LoadTest, cluster string, condition func(*v1alpha1.LoadTestRunStatus) bool) *v1alpha1.LoadTestRun {
	GinkgoHelper()
	run := &v1alpha1.LoadTestRun{}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		run = runOf(ctx, g, test, cluster)
		g.Expect(condition(&run.Status)).To(BeTrue(), run.Status.Message)
	}).WithTimeout(fleettest.Patience).WithPolling(fleettest.Glance).Should(Succeed())
	return run
}

// over waits until a test is.
func over(ctx context.Context, test *v1alpha1.LoadTest) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(test), test)).To(Succeed())
		g.Expect(test.Status.Phase).To(BeElementOf(v1alpha1.LoadTestPhaseCompleted, v1alpha1.LoadTestPhaseFailed), test.Status.Message)
	}).WithTimeout(fleettest.Patience).Should(Succeed())
	AddReportEntry(test.Name, fmt.Sprintf("%s: %s", test.Status.Verdict, test.Status.Message))
}

// measuredBy is what a run has measured.
func measuredBy(run *v1alpha1.LoadTestRun, measurement v1alpha1.LoadMeasurement, verb string) v1alpha1.LoadLatency {
	GinkgoHelper()
	for i := range run.Status.Histograms {
		if one := &run.Status.Histograms[i].LoadLatency; one.Measurement == measurement && one.Verb == verb {
			return *one
		}
	}
	Fail(fmt.Sprintf("nothing of %s is in the run", loadtest.Key{Measurement: measurement, Verb: verb}))
	return v1alpha1.LoadLatency{}
}

func most(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func lasting(d time.Duration) v1alpha1.LoadStep {
	return v1alpha1.LoadStep{Name: "wait", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: most(d)}}}
}

func creating(template string, replicas, qps int32) v1alpha1.LoadStep {
	return v1alpha1.LoadStep{Name: "create", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: template, Replicas: replicas, Tuning: v1alpha1.LoadTuning{QPS: qps}}}}
}
