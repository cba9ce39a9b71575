package loadtest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// good is a report of a test that has passed in so many clusters.
func good(clusters int) *report {
	r := sample(clusters, 1)
	r.Verdict, r.Completed, r.Failed, r.Invalid, r.Partial, r.Failures, r.Missed, r.Faults = v1alpha1.LoadPassed, int32(clusters), 0, 0, false, nil, 0, nil
	r.Preset = &v1alpha1.LoadPreset{Name: "density", Pods: 40}
	r.Threshold[0].Met, r.Threshold[0].MissedClusters, r.Threshold[0].MissedIn = true, 0, nil
	for i := range r.Runs {
		r.Runs[i].Failure, r.Runs[i].Invalid, r.Runs[i].Verdict, r.Runs[i].Threshold = "", nil, v1alpha1.LoadPassed, append([]v1alpha1.LoadThresholdResult(nil), r.Threshold...)
	}
	return r
}

func TestTestsThatDifferAreNotCompared(t *testing.T) {
	NewWithT(t).Expect(findDifferences(good(3), good(3))).To(BeEmpty())
	for name, c := range map[string]struct {
		change func(*report)
		want   difference
	}{
		"another load": {func(r *report) { r.Preset.QPS = 20 }, difference{ofLoad, "another", "another"}},
		"a disruption": {func(r *report) { r.Disruption = &v1alpha1.Disruption{} }, difference{ofLoad, "another", "another"}},
		"no spec":      {func(r *report) { r.Preset = nil }, difference{ofLoad, `[{"name":"density","pods":40},null,null]`, unknown}},
		"clusters":     {func(r *report) { r.Runs = r.Runs[:2] }, difference{ofClusters, "3", "2"}},
		"the API server": {func(r *report) { r.Runs[1].Environment.KubernetesVersion = "v1.36.0" },
			difference{ofVersions, "Kubernetes v1.37.1, kubelet v1.37.1", "Kubernetes v1.36.0, Kubernetes v1.37.1, kubelet v1.37.1"}},
		"kubelets": {func(r *report) {
			r.Runs[2].Environment.KubeletVersions = append(r.Runs[2].Environment.KubeletVersions, v1alpha1.LoadNodeCount{Value: "v1.36.2", Nodes: 1})
		}, difference{ofVersions, "Kubernetes v1.37.1, kubelet v1.37.1", "Kubernetes v1.37.1, kubelet v1.36.2 on 1 Node, kubelet v1.37.1, kubelet v1.37.1 on 20 Nodes"}},
		"Nodes":          {func(r *report) { r.Runs[0].Environment.Nodes = 19 }, difference{ofNodes, "20", "19, 20"}},
		"the profile":    {func(r *report) { r.Runs[0].Environment.Profiles[0].Value = "Realistic" }, difference{ofProfile, "Fast", "Fast, Realistic"}},
		"the machine":    {func(r *report) { r.Runs[0].Environment.Processors = 64 }, difference{ofMachine, "2 processors (Some CPU), 23 GiB of memory", "2 processors (Some CPU), 23 GiB of memory, 64 processors (Some CPU), 23 GiB of memory"}},
		"an older agent": {func(r *report) { r.Runs[0].Environment = nil }, difference{ofProfile, "Fast", "Fast, unknown"}},
		"invalid":        {func(r *report) { r.Invalid = 1 }, difference{ofValidity, valid, "invalid in 1 of 3 clusters"}},
		"partial":        {func(r *report) { r.Partial = true }, difference{ofValidity, valid, "partial"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			now := good(3)
			c.change(now)
			g.Expect(findDifferences(good(3), now)).To(ContainElement(c.want))
			swapped := difference{c.want.Property, c.want.Now, c.want.Before}
			g.Expect(findDifferences(now, good(3))).To(ContainElement(swapped))
		})
	}
	g := NewWithT(t)
	both := good(3)
	both.Runs[0].Environment = nil
	g.Expect(findDifferences(both, both)).NotTo(BeEmpty(), "what is unknown of both may differ")
	thresholds := good(3)
	thresholds.Preset.Thresholds = []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadErrors}}
	g.Expect(findDifferences(good(3), thresholds)).To(BeEmpty(), "thresholds change no measurement")
}

// Two clusters that swap what they are made on are two other clusters, although both tests have the same values.
// Claim: Tests are compared cluster by cluster. Broken: values are compared as sets; names that differ; the numbers of Nodes left out.
// Edge case: Two clusters that had swapped versions compared as equal.
func TestClustersAreComparedOneByOne(t *testing.T) {
	nodes := func(counts ...int32) *report {
		r := good(len(counts))
		for i, count := range counts {
			r.Runs[i].Environment.Nodes = count
		}
		return r
	}
	renamed := func(r *report) *report {
		for i := range r.Runs {
			r.Runs[i].Cluster = "other-" + r.Runs[i].Cluster
		}
		return r
	}
	kubelets := func(older, newer int32) *report {
		r := good(1)
		r.Runs[0].Environment.KubeletVersions = []v1alpha1.LoadNodeCount{{Value: "v1.37.1", Nodes: newer}, {Value: "v1.36.2", Nodes: older}}
		return r
	}
	versions := func(of ...string) *report {
		r := good(len(of))
		for i, version := range of {
			r.Runs[i].Environment.KubernetesVersion = version
		}
		return r
	}
	first, second := good(2).Runs[0].Cluster, good(2).Runs[1].Cluster
	for name, c := range map[string]struct {
		before, now *report
		want        []difference
	}{
		"the same":                      {nodes(5, 9), nodes(5, 9), nil},
		"swapped":                       {nodes(5, 9), nodes(9, 5), []difference{{ofNodes, first + ": 5; " + second + ": 9", first + ": 9; " + second + ": 5"}}},
		"swapped versions":              {versions("v1.36.0", "v1.37.0"), versions("v1.37.0", "v1.36.0"), []difference{{ofVersions, first + ": Kubernetes v1.36.0, kubelet v1.37.1; " + second + ": Kubernetes v1.37.0, kubelet v1.37.1", first + ": Kubernetes v1.37.0, kubelet v1.37.1; " + second + ": Kubernetes v1.36.0, kubelet v1.37.1"}}},
		"one of three":                  {nodes(5, 9, 9), nodes(5, 5, 9), []difference{{ofNodes, second + ": 9", second + ": 5"}}},
		"others, as many of each":       {nodes(5, 9, 9), renamed(nodes(9, 9, 5)), nil},
		"others, another part of each":  {nodes(5, 9, 9), renamed(nodes(5, 5, 9)), []difference{{ofNodes, "1 cluster with 5; 2 clusters with 9", "2 clusters with 5; 1 cluster with 9"}}},
		"more, in the same parts":       {nodes(5, 9), nodes(5, 9, 9, 5), []difference{{ofClusters, "2", "4"}}},
		"more, in other parts":          {nodes(5, 9), nodes(5, 9, 9, 9), []difference{{ofClusters, "2", "4"}, {ofNodes, "1 cluster with 5; 1 cluster with 9", "1 cluster with 5; 3 clusters with 9"}}},
		"kubelets":                      {kubelets(10, 10), kubelets(10, 10), nil},
		"as many Nodes, other kubelets": {kubelets(10, 10), kubelets(1, 19), []difference{{ofVersions, "Kubernetes v1.37.1, kubelet v1.36.2 on 10 Nodes, kubelet v1.37.1 on 10 Nodes", "Kubernetes v1.37.1, kubelet v1.36.2 on 1 Node, kubelet v1.37.1 on 19 Nodes"}}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(findDifferences(c.before, c.now)).To(Equal(c.want)) })
	}
	many, swapped := nodes(1, 2, 1, 2, 1), nodes(2, 1, 2, 1, 2)
	NewWithT(t).Expect(findDifferences(many, swapped)).To(ConsistOf(HaveField("Now", HaveSuffix(": 2 and 2 more"))))
}

func TestNothingIsJudgedOfTestsThatDiffer(t *testing.T) {
	g := NewWithT(t)
	before, now := good(1), good(1)
	now.Results[0].P99 = of(time.Minute)
	c := compareResults(before.Results, now.Results, 10)
	g.Expect(c.Regressions).To(Equal(1))
	c.clearVerdicts()
	g.Expect(c.Regressions).To(BeZero())
	g.Expect(c.Rows).To(HaveEach(HaveField("Result", isIncomparable)))
	now = good(1)
	now.Results[0].Unfinished = 20
	g.Expect(compareResults(before.Results, now.Results, 10).Regressions).To(Equal(1), "more pods were never Ready, and the times are lower bounds")
}

// A CI system that reads one of the two comes to the same result as one that reads the other.
// Claim: JUnit fails exactly with the exit code. Broken: the verdict has no case; a scope or an invalid run is not looked at; the numbers are not those of the cases.
func TestJUnitFailsExactlyIfTheExitCodeIsNotZero(t *testing.T) {
	missed := func(r *report, cluster int, scope v1alpha1.LoadThresholdScope) {
		r.Runs[cluster].Threshold[0].Met, r.Runs[cluster].Threshold[0].Scope = false, scope
		r.Threshold[0].MissedClusters, r.Threshold[0].MissedIn, r.Threshold[0].Scope = 1, []string{r.Runs[cluster].Cluster}, scope
	}
	for name, c := range map[string]struct {
		change func(*report)
		fails  bool
	}{
		"passed":                                 {func(*report) {}, false},
		"one cluster misses what holds over all": {func(r *report) { missed(r, 1, v1alpha1.LoadScopeFleet) }, false},
		"one cluster misses what holds in each": {func(r *report) {
			missed(r, 1, v1alpha1.LoadScopeEachCluster)
			r.Verdict, r.Missed = v1alpha1.LoadMissed, 1
		}, true},
		"all together miss it": {func(r *report) { r.Verdict, r.Threshold[0].Met = v1alpha1.LoadMissed, false }, true},
		"a cluster was left out": {func(r *report) {
			r.Verdict, r.Failed, r.Failures = v1alpha1.LoadMissed, 1, []v1alpha1.ClusterFailure{{Cluster: "left", Message: "it is frozen"}}
		}, true},
		"invalid":       {func(r *report) { r.Verdict, r.Invalid = v1alpha1.LoadInvalid, 1; r.Runs[0].Invalid = []string{"x"} }, true},
		"no thresholds": {func(r *report) { r.Verdict, r.Threshold = "", nil }, false},
		"not started":   {func(r *report) { r.Phase, r.Verdict = v1alpha1.LoadTestPhaseFailed, ""; r.Runs = nil }, true},
		"not over":      {func(r *report) { r.Phase, r.Verdict, r.EndTime = v1alpha1.LoadTestPhaseRunning, "", nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := good(3)
			c.change(r)
			var read suites
			g.Expect(xml.Unmarshal([]byte(written(t, asJUnit, r)), &read)).To(Succeed())
			bad := 0
			for _, one := range read.Suites {
				bad += one.Failures + one.Errors
				g.Expect(one).To(Equal(counted(one)), "the numbers are those of the cases")
			}
			g.Expect(min(bad, 1)).To(Equal(map[bool]int{true: 1}[c.fails]))
			g.Expect(r.exitError() != nil).To(Equal(c.fails))
		})
	}
}

// counted is a suite with the numbers of its cases.
func counted(s suite) suite {
	s.Tests, s.Failures, s.Errors, s.Skipped = len(s.Cases), 0, 0, 0
	for _, one := range s.Cases {
		switch {
		case one.Failure != nil:
			s.Failures++
		case one.Error != nil:
			s.Errors++
		case one.Skipped != nil:
			s.Skipped++
		}
	}
	return s
}

// What one cluster has missed is its failure only where that counts for each cluster.
func TestAClustersThresholdFailsByItsScope(t *testing.T) {
	for name, c := range map[string]struct {
		scope           v1alpha1.LoadThresholdScope
		run             v1alpha1.LoadVerdict
		failed, skipped int
	}{
		"in each cluster":            {v1alpha1.LoadScopeEachCluster, v1alpha1.LoadMissed, 1, 0},
		"over all":                   {v1alpha1.LoadScopeFleet, v1alpha1.LoadPassed, 0, 1},
		"in each, of an invalid run": {v1alpha1.LoadScopeEachCluster, v1alpha1.LoadInvalid, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := good(2)
			r.Verdict, r.Missed = v1alpha1.LoadMissed, 1
			r.Runs[1].Verdict, r.Runs[1].Threshold[0].Met, r.Runs[1].Threshold[0].Scope = c.run, false, c.scope
			var read suites
			g.Expect(xml.Unmarshal([]byte(written(t, asJUnit, r)), &read)).To(Succeed())
			g.Expect(read.Suites[2]).To(And(HaveField("Failures", c.failed), HaveField("Skipped", c.skipped), HaveField("Tests", 1)))
		})
	}
}

func TestALoadOfItsOwnIsComparedWithoutItsThresholds(t *testing.T) {
	g := NewWithT(t)
	own := func(change func(*v1alpha1.Load)) *report {
		r := good(1)
		r.Preset, r.Load = nil, &v1alpha1.Load{Namespaces: 2}
		change(r.Load)
		return r
	}
	same := own(func(*v1alpha1.Load) {})
	g.Expect(findDifferences(same, own(func(l *v1alpha1.Load) { l.Thresholds = []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadErrors}} }))).To(BeEmpty())
	g.Expect(findDifferences(same, own(func(l *v1alpha1.Load) { l.Namespaces = 3 }))).To(ContainElement(difference{ofLoad, "another", "another"}))
	g.Expect(findDifferences(same, good(1))).To(ContainElement(difference{ofLoad, "another", "another"}))
}

func TestWhatARunDoesNotSayIsUnknown(t *testing.T) {
	g := NewWithT(t)
	r := good(1)
	r.Runs[0].Environment.KubernetesVersion = ""
	g.Expect(findDifferences(r, r)).To(ContainElement(difference{ofVersions, "Kubernetes unknown, kubelet v1.37.1", "Kubernetes unknown, kubelet v1.37.1"}))
	r.Runs = nil
	g.Expect(r.environmentLines()).To(BeEmpty())
	g.Expect(r.valuesOf(ofVersions)).To(Equal("none"))
}

func TestTextNamesBadClustersReasonsAndTheEnvironment(t *testing.T) {
	g := NewWithT(t)
	r := sample(3, 1)
	r.Runs[2].Shortfalls, r.Runs[2].Simulator.Doubts = []string{"2 of 40 requests failed"}, []string{"the processors were always busy"}
	text := written(t, asText, r)
	for _, said := range []string{
		"not met: PodReady P99 >= 6s, not 5s (4 of 40 pods were never Ready)\n  not met in 1 of 3 clusters: c001\n", "never Ready: 4 pods: Unschedulable: 0/20 nodes are available\n",
		"made on: Kubernetes v1.37.1, kubelet v1.37.1; Nodes in each cluster: 20; profile: Fast; machine: 2 processors (Some CPU), 23 GiB of memory\n",
		"  2 of 40 requests failed\n", "  in doubt: the processors were always busy\n", "up to 20 requests a second asked for, 12.5 made on average",
	} {
		g.Expect(text).To(ContainSubstring(said))
	}
	g.Expect(text).To(MatchRegexp(`PodReady +40 \(4 unfinished\) +>1.5s +>3s +>6s +>12s`))
	g.Expect(text).To(MatchRegexp(`APIServerRequest GET pods +40 +<5ms`))
	var buffer bytes.Buffer
	g.Expect(writeJSON(&buffer, r)).To(Succeed())
	again := &report{}
	g.Expect(json.Unmarshal(buffer.Bytes(), again)).To(Succeed())
	g.Expect(findDifferences(r, again)).To(HaveExactElements(HaveField("Property", ofLoad), HaveField("Property", ofValidity)), "a baseline keeps the environment")
}
