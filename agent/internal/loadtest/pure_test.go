package loadtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

func times(tuning v1alpha1.LoadTuning, seed uint64, total int) []time.Duration {
	p := newPacer(tuning, seed, 7, total, 0)
	var list []time.Duration
	for range total {
		list = append(list, p.next())
	}
	return list
}

func TestPacer(t *testing.T) {
	const total = 5000
	for name, test := range map[string]struct {
		tuning v1alpha1.LoadTuning
		// lasts is about how many seconds all requests take.
		lasts  float64
		random bool
	}{
		"steady":               {v1alpha1.LoadTuning{QPS: 50}, 100, false},
		"steady, bursts":       {v1alpha1.LoadTuning{QPS: 50, Burst: 10}, 100, false},
		"random":               {v1alpha1.LoadTuning{Type: v1alpha1.LoadRandom, QPS: 50}, 100, true},
		"random, bursts":       {v1alpha1.LoadTuning{Type: v1alpha1.LoadRandom, QPS: 50, Burst: 5}, 100, true},
		"poisson":              {v1alpha1.LoadTuning{Type: v1alpha1.LoadPoisson, QPS: 50}, 100, true},
		"a ramp":               {v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp, StartQPS: 10, QPS: 90}, 100, false},
		"a ramp down":          {v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp, StartQPS: 90, QPS: 10}, 100, false},
		"a ramp of no growth":  {v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp, StartQPS: 50, QPS: 50}, 100, false},
		"one without defaults": {v1alpha1.LoadTuning{}, 5000, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			list := times(test.tuning, 1, total)
			g.Expect(list).To(Equal(times(test.tuning, 1, total)), "the same seed gives the same times")
			g.Expect(list[total-1].Seconds()).To(BeNumerically("~", test.lasts, 0.07*test.lasts), "the mean rate")
			burst := int(max(test.tuning.Burst, 1))
			for i := 1; i < total; i++ {
				g.Expect(list[i]).To(BeNumerically(">=", list[i-1]))
				if i%burst != 0 {
					g.Expect(list[i]).To(Equal(list[i-1]), "a burst comes at once")
				}
			}
			if test.random {
				g.Expect(list).NotTo(Equal(times(test.tuning, 2, total)), "another seed gives other times")
			}
		})
	}
}

func TestARampGrows(t *testing.T) {
	g := NewWithT(t)
	list := times(v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp, StartQPS: 10, QPS: 90}, 1, 5000)
	in := func(from, to float64) (count int) {
		for _, at := range list {
			if at.Seconds() >= from && at.Seconds() < to {
				count++
			}
		}
		return count
	}
	g.Expect(in(0, 10)).To(BeNumerically("~", 140, 3), "from 10 to 18 a second")
	g.Expect(in(45, 55)).To(BeNumerically("~", 500, 3), "from 46 to 54 a second")
	g.Expect(in(90, 100)).To(BeNumerically("~", 860, 3), "from 82 to 90 a second")
}

func TestInvalidity(t *testing.T) {
	for name, test := range map[string]struct {
		facts simulatorFacts
		want  []string
	}{
		"all is well":                    {simulatorFacts{Nodes: 100, Requests: 1000, CPUSeconds: 100, SaturatedPercent: 50}, nil},
		"nothing is known":               {simulatorFacts{}, nil},
		"a busy machine alone":           {simulatorFacts{Nodes: 100, Requests: 1000, CPUSeconds: 600, SaturatedPercent: 100}, nil},
		"5 % of the Nodes":               {simulatorFacts{Nodes: 100, LateNodes: 5}, nil},
		"more than 5 % of the Nodes":     {simulatorFacts{Nodes: 100, LateNodes: 6}, []string{"6 of 100 Nodes"}},
		"one of few Nodes":               {simulatorFacts{Nodes: 3, LateNodes: 1}, nil},
		"two of few Nodes":               {simulatorFacts{Nodes: 3, LateNodes: 2}, []string{"2 of 3 Nodes"}},
		"5 % of the requests":            {simulatorFacts{Requests: 100, LateRequests: 5}, nil},
		"more than 5 % of the requests":  {simulatorFacts{Requests: 100, LateRequests: 6}, []string{"6 of 100 requests"}},
		"a busy machine, one late":       {simulatorFacts{Nodes: 100, LateNodes: 1, CPUSeconds: 30, SaturatedPercent: 91}, []string{"processors"}},
		"a busy machine, a late request": {simulatorFacts{Requests: 100, LateRequests: 1, CPUSeconds: 30, SaturatedPercent: 91}, []string{"processors"}},
		"busy for 90 % of the time":      {simulatorFacts{Nodes: 100, LateNodes: 1, CPUSeconds: 30, SaturatedPercent: 90}, nil},
		"busy, but not watched for long": {simulatorFacts{Nodes: 100, LateNodes: 1, CPUSeconds: 29, SaturatedPercent: 100}, nil},
		"everything":                     {simulatorFacts{Nodes: 10, LateNodes: 10, Requests: 10, LateRequests: 10, CPUSeconds: 60, SaturatedPercent: 100}, []string{"Nodes", "requests", "processors"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			reasons := invalidity(test.facts)
			g.Expect(reasons).To(HaveLen(len(test.want)))
			for i, want := range test.want {
				g.Expect(reasons[i]).To(ContainSubstring(want))
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	met, missed := []v1alpha1.LoadThresholdResult{{Met: true}}, []v1alpha1.LoadThresholdResult{{Met: true}, {}}
	for name, test := range map[string]struct {
		failure string
		invalid []string
		results []v1alpha1.LoadThresholdResult
		want    v1alpha1.LoadVerdict
	}{
		"no thresholds":            {want: ""},
		"all met":                  {results: met, want: v1alpha1.LoadPassed},
		"one missed":               {results: missed, want: v1alpha1.LoadMissed},
		"invalid":                  {invalid: []string{"late"}, results: met, want: v1alpha1.LoadInvalid},
		"invalid, and one missed":  {invalid: []string{"late"}, results: missed, want: v1alpha1.LoadInvalid},
		"invalid, no thresholds":   {invalid: []string{"late"}, want: v1alpha1.LoadInvalid},
		"not in full":              {failure: "stopped", results: met, want: v1alpha1.LoadMissed},
		"not in full, and invalid": {failure: "stopped", invalid: []string{"late"}, want: v1alpha1.LoadMissed},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(verdictOf(test.failure, test.invalid, test.results)).To(Equal(test.want))
		})
	}
}

func TestWhatIsRemovedAtTheEnd(t *testing.T) {
	g := NewWithT(t)
	passed := &v1alpha1.LoadTestRunStatus{Verdict: v1alpha1.LoadPassed}
	for _, status := range []*v1alpha1.LoadTestRunStatus{passed, {}, {Verdict: v1alpha1.LoadMissed}, {Failure: "x", Verdict: v1alpha1.LoadMissed}} {
		g.Expect(removes(v1alpha1.LoadCleanupDelete, status)).To(BeTrue())
		g.Expect(removes("", status)).To(BeTrue())
		g.Expect(removes(v1alpha1.LoadCleanupKeep, status)).To(BeFalse())
	}
	g.Expect(removes(v1alpha1.LoadCleanupDeleteOnSuccess, passed)).To(BeTrue())
	g.Expect(removes(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{})).To(BeTrue(), "no thresholds")
	g.Expect(removes(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{Verdict: v1alpha1.LoadMissed})).To(BeFalse())
	g.Expect(removes(v1alpha1.LoadCleanupDeleteOnSuccess, &v1alpha1.LoadTestRunStatus{Failure: "x"})).To(BeFalse())
}

func TestTemplates(t *testing.T) {
	g := NewWithT(t)
	run := &v1alpha1.LoadTestRun{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "0123456789"}}
	template, err := parseTemplate(run, v1alpha1.LoadTemplate{Name: "web", Object: strings.Join([]string{
		"apiVersion: v1", "kind: ConfigMap", "metadata: {name: other, generateName: x-, namespace: elsewhere, labels: {own: label}}",
		`data: {all: "{{.Name}} {{.Namespace}} {{.Index}} {{.Iteration}} {{.Run}}"}`,
	}, "\n")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(template.kind).To(Equal(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}))
	object, err := template.render("load-01234567-1", 3, 2)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(object.Object).To(Equal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "web-3", "namespace": "load-01234567-1", "labels": map[string]any{
			"own": "label", v1alpha1.LoadTestRunUIDLabel: "0123456789", v1alpha1.LoadTemplateLabel: "web",
		}},
		"data": map[string]any{"all": "web-3 load-01234567-1 3 2 r"},
	}))
	template.resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	g.Expect(strings.Join(template.path("n", "web-3"), "/")).To(Equal("/api/v1/namespaces/n/configmaps/web-3"))
	template.resource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	g.Expect(strings.Join(template.path("n", ""), "/")).To(Equal("/apis/apps/v1/namespaces/n/deployments"))
}

func TestTemplatesDecideByIndex(t *testing.T) {
	g := NewWithT(t)
	parsed, err := parseText("t", `{{/* nothing */}}{{if eq (mod .Index 3) 1}}one{{else if gt .Index 4}}many{{else}}{{.Name}} {{add .Index 1}} {{"x"}} {{lt .Index 2}}{{end}}`)
	g.Expect(err).NotTo(HaveOccurred())
	for index, want := range []string{"n 1 x true", "one", "n 3 x false", "n 4 x false", "one", "many"} {
		got, err := parsed.execute(map[string]any{"Index": int64(index), "Name": "n"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(got)).To(Equal(want))
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ object, want string }{
		"a template that does not parse": {"{{.Name", "parsing"},
		"a field that there is not":      {"apiVersion: v1\nkind: Pod\nspec: {{.Nodes}}", "rendering"},
		"no YAML":                        {"kind: [", "reading the YAML"},
		"a field twice":                  {"apiVersion: v1\nkind: Pod\nkind: Secret", "already"},
		"no object":                      {"- 1", "no object"},
		"two objects":                    {"---\nkind: Pod\n---\nkind: Pod", "more than one object"},
		"no kind":                        {"apiVersion: v1", "apiVersion and kind"},
		"no apiVersion":                  {"kind: Pod", "apiVersion and kind"},
		"metadata that is none":          {"apiVersion: v1\nkind: Pod\nmetadata: no", "metadata"},
		"labels that are none":           {"apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: 1}}", "labels"},
		"a loop":                         {"apiVersion: v1\nkind: Pod\nx: {{range 1000000000}}a{{end}}", "not supported"},
		"a definition":                   {"{{define \"x\"}}a{{end}}apiVersion: v1", "define is not supported"},
		"a variable":                     {"{{$x := 1}}apiVersion: v1", "no variables"},
		"a pipe":                         {"{{.Index | eq 1}}", "no pipes"},
		"a function that there is not":   {"{{printf .Name}}", "function \"printf\" not defined"},
		"a function without arguments":   {"{{eq .Index}}", "two arguments"},
		"no numbers":                     {"{{mod .Name 2}}", "not two numbers"},
		"a division by 0":                {"{{mod .Index 0}}", "division by 0"},
		"nothing":                        {"", "apiVersion and kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTemplate(&v1alpha1.LoadTestRun{}, v1alpha1.LoadTemplate{Name: "t", Object: test.object})
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
	t.Run("another kind for another index", func(t *testing.T) {
		template, err := parseTemplate(&v1alpha1.LoadTestRun{}, v1alpha1.LoadTemplate{Name: "t", Object: "apiVersion: v1\nkind: {{if .Index}}Pod{{else}}Secret{{end}}"})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_, err = template.render("n", 1, 0)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("is a Pod, but that of index 0 is a Secret")))
	})
}

// metricsOf is what an API server with these counts below 0.1 s, below 1 s and in all shows.
func metricsOf(verb, resource string, tenth, second, all int) string {
	labels := fmt.Sprintf(`component="apiserver",group="",resource=%q,scope="resource",subresource="",verb=%q,version="v1"`, resource, verb)
	return fmt.Sprintf("apiserver_request_sli_duration_seconds_bucket{%[1]s,le=\"0.1\"} %[2]d\n"+
		"apiserver_request_sli_duration_seconds_bucket{%[1]s,le=\"1\"} %[3]d\napiserver_request_sli_duration_seconds_bucket{%[1]s,le=\"+Inf\"} %[4]d\n"+
		"apiserver_request_sli_duration_seconds_sum{%[1]s} 1.5\napiserver_request_sli_duration_seconds_count{%[1]s} %[4]d\n", labels, tenth, second, all)
}

func TestWhatTheAPIServerHasCounted(t *testing.T) {
	g := NewWithT(t)
	const head = "# HELP apiserver_request_sli_duration_seconds [ALPHA] x\n# TYPE apiserver_request_sli_duration_seconds histogram\n"
	const other = "# TYPE other counter\nother{a=\"b\"} 3\nthis is no metric\n"
	before, err := parseServerCounts(strings.NewReader(other + head + metricsOf("POST", "pods", 5, 6, 6) + metricsOf("GET", "nodes", 100, 100, 100)))
	g.Expect(err).NotTo(HaveOccurred())
	after, err := parseServerCounts(strings.NewReader(other + head + metricsOf("POST", "pods", 15, 20, 21) + metricsOf("GET", "nodes", 7, 7, 7) +
		metricsOf("LIST", "pods", 0, 3, 3) + metricsOf("WATCH", "pods", 9, 9, 9)))
	g.Expect(err).NotTo(HaveOccurred())
	measured := after.since(before)
	key := func(verb, resource string) measure.Key {
		return measure.Key{Measurement: v1alpha1.LoadAPIServerRequest, Verb: verb, Resource: resource}
	}
	g.Expect(measured).To(And(HaveLen(3), HaveKey(key("POST", "pods")), HaveKey(key("GET", "nodes")), HaveKey(key("LIST", "pods"))), "watches are no requests")
	posts := measure.Summarize(key("POST", "pods"), measured[key("POST", "pods")])
	g.Expect(posts.Count).To(BeEquivalentTo(15), "10 below 0.1 s, 4 below 1 s, 1 above")
	g.Expect(posts.P50.Duration).To(BeNumerically("~", 100*time.Millisecond, time.Millisecond))
	g.Expect(posts.P90.Duration).To(BeNumerically("~", time.Second, 10*time.Millisecond))
	g.Expect(posts.Max.Duration).To(BeNumerically("~", time.Hour, 10*time.Second), "above all buckets")
	g.Expect(measured[key("GET", "nodes")].TotalCount()).To(BeEquivalentTo(7), "an API server that was started again counts anew")
	g.Expect(measured[key("LIST", "pods")].TotalCount()).To(BeEquivalentTo(3), "new ones")
	_, err = parseServerCounts(strings.NewReader(head + "apiserver_request_sli_duration_seconds_bucket{ 3\n"))
	g.Expect(err).To(MatchError(ContainSubstring("parsing metrics")))
}

func TestChurnedObjects(t *testing.T) {
	g := NewWithT(t)
	for _, test := range []struct{ have, percent, want int }{{0, 50, 0}, {1, 1, 1}, {10, 10, 1}, {10, 11, 2}, {7, 50, 4}, {7, 100, 7}} {
		g.Expect(churned(test.have, int32(test.percent))).To(Equal(test.want), "%v", test)
	}
	b := newBook()
	template := &objectTemplate{name: "t"}
	for range 3 {
		for _, namespace := range []string{"a", "b"} {
			b.created(b.begin(template, namespace, true), time.Unix(1, 0))
		}
	}
	b.remove(place{"t", "a", "t-0"})
	chosen := inTurn(b.those("t", []string{"a", "b"}), []string{"a", "b"}, func(have int) int { return churned(have, 60) })
	var names []string
	for _, o := range chosen {
		names = append(names, o.namespace+"/"+o.name)
	}
	g.Expect(names).To(Equal([]string{"a/t-1", "b/t-0", "a/t-2", "b/t-1"}), "the oldest of each namespace in turn")
	g.Expect(b.begin(template, "a", true).name).To(Equal("t-3"), "no name comes twice")
}

func TestTheBookKnowsWhatIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	b, template := newBook(), &objectTemplate{name: "t"}
	o := b.begin(template, "a", false)
	left, changed := b.pending("t", false)
	g.Expect(left).To(Equal(1), "it is being made")
	g.Expect(b.nth("t", 0)).To(BeNil(), "it is not there yet")
	_, told := b.observe(o.place(), true, time.Unix(12, 0))
	g.Expect(told).To(BeFalse(), "the answer has not come")
	took, told := b.created(o, time.Unix(10, 0))
	g.Expect(told).To(BeTrue())
	g.Expect(took).To(Equal(2 * time.Second))
	g.Expect(changed).To(BeClosed())
	left, _ = b.pending("t", false)
	g.Expect(left).To(BeZero())
	g.Expect(b.nth("t", 5)).To(Equal(o))
	_, _ = b.observe(o.place(), false, time.Unix(13, 0))
	left, _ = b.pending("t", false)
	g.Expect(left).To(Equal(1), "it is not ready any more")
	_, told = b.observe(o.place(), true, time.Unix(14, 0))
	g.Expect(told).To(BeFalse(), "only the first time counts")
	g.Expect(b.leave(o)).To(BeTrue())
	g.Expect(b.leave(o)).To(BeFalse(), "it is deleted once")
	left, _ = b.pending("t", true)
	g.Expect(left).To(Equal(1))
	b.remove(o.place())
	left, _ = b.pending("t", true)
	g.Expect(left).To(BeZero())
	g.Expect(b.nth("t", 0)).To(BeNil())
}

type recorded map[v1alpha1.LoadMeasurement][]time.Duration

func (r recorded) record(key measure.Key, took time.Duration, _ time.Time) {
	r[key.Measurement] = append(r[key.Measurement], took)
}

func TestPodTimes(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	pod := func(name string, own bool, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(at(0))}}
		if own {
			p.Labels = map[string]string{v1alpha1.LoadTestRunUIDLabel: "u"}
		}
		p.Spec.Containers = make([]corev1.Container, 1)
		if change != nil {
			change(p)
		}
		return p
	}
	scheduled := func(p *corev1.Pod) { p.Spec.NodeName = "x" }
	ready := func(p *corev1.Pod) {
		scheduled(p)
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(3))},
		}
	}
	all := func(scheduled, rest time.Duration) recorded {
		return recorded{
			v1alpha1.LoadPodScheduled: {scheduled}, v1alpha1.LoadPodInitialized: {rest}, v1alpha1.LoadPodRunning: {rest}, v1alpha1.LoadPodReady: {rest},
			v1alpha1.LoadPodReadyByObject: {3 * time.Second},
		}
	}
	key := types.NamespacedName{Namespace: "n", Name: "p"}
	for name, test := range map[string]struct {
		do   func(*podTracker)
		want recorded
	}{
		"the answer before the watch": {func(p *podTracker) {
			p.answered(key, at(1))
			p.observe(pod("p", true, nil), at(2))
			p.observe(pod("p", true, scheduled), at(3))
			p.observe(pod("p", true, ready), at(5))
			p.observe(pod("p", true, ready), at(9))
		}, all(2*time.Second, 4*time.Second)},
		"the watch before the answer": {func(p *podTracker) {
			p.observe(pod("p", true, scheduled), at(2))
			p.observe(pod("p", true, ready), at(3))
			p.answered(key, at(1))
		}, all(time.Second, 2*time.Second)},
		"a pod of a controller": {func(p *podTracker) {
			p.observe(pod("p", false, nil), at(2))
			p.observe(pod("p", false, scheduled), at(3))
			p.observe(pod("p", false, ready), at(5))
		}, all(time.Second, 3*time.Second)},
		"a pod without an answer": {func(p *podTracker) {
			p.observe(pod("p", true, scheduled), at(2))
		}, recorded{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := recorded{}
			tracker := newPodTracker("u", got.record)
			test.do(tracker)
			NewWithT(t).Expect(got).To(Equal(test.want))
			created, _ := tracker.counts()
			NewWithT(t).Expect(created).To(BeEquivalentTo(1))
		})
	}
}

func TestNodeTimes(t *testing.T) {
	g := NewWithT(t)
	got := recorded{}
	tracker := newNodeTracker(got.record)
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	node := func(name string, status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	}
	tracker.observe(node("old", corev1.ConditionTrue), true, at(0))
	tracker.observe(node("ill", corev1.ConditionFalse), true, at(0))
	tracker.observe(node("new", corev1.ConditionFalse), false, at(1))
	tracker.observe(node("ill", corev1.ConditionTrue), false, at(2))
	g.Expect(got).To(BeEmpty(), "it is not known since when it was ill")
	tracker.observe(node("new", corev1.ConditionTrue), false, at(4))
	tracker.observe(node("old", corev1.ConditionUnknown), false, at(5))
	tracker.observe(node("old", corev1.ConditionTrue), false, at(7))
	g.Expect(got).To(Equal(recorded{v1alpha1.LoadNodeReady: {3 * time.Second, 2 * time.Second}}))
	tracker.gone("ill")
	g.Expect(tracker.hollow()).To(Equal(map[string]bool{"old": true, "new": true}))
}

func TestLateHeartbeats(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(1000, 0)
	lease := func(name string, age time.Duration) coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(-age))
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	s := newSimulator()
	hollow := map[string]bool{"a": true, "b": true, "c": true, "d": true}
	s.heartbeats([]coordinationv1.Lease{lease("a", 19*time.Second), lease("b", 21*time.Second), lease("c", time.Hour), lease("real", time.Hour), {ObjectMeta: metav1.ObjectMeta{Name: "d"}}},
		hollow, map[string]bool{"c": true}, now)
	report, _ := s.report(0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(2)), HaveField("LateHeartbeats", BeEquivalentTo(1))))
	s.heartbeats([]coordinationv1.Lease{lease("b", 0), lease("c", time.Hour)}, hollow, nil, now)
	report, _ = s.report(0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(2)), HaveField("LateHeartbeats", BeEquivalentTo(1))),
		"one that was late once was late, and one that was disrupted does not count any more")
	s.heartbeats(nil, hollow, map[string]bool{"b": true}, now)
	report, _ = s.report(0, 0)
	g.Expect(report).To(And(HaveField("Nodes", BeEquivalentTo(1)), HaveField("LateHeartbeats", BeZero())))
}

func TestProcessors(t *testing.T) {
	g := NewWithT(t)
	total, idle, err := parseMachineTime([]byte("cpu  10 0 5 80 5 0 0 0 7 0\ncpu0 1 2 3\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]uint64{total, idle}).To(Equal([]uint64{100, 85}))
	for _, wrong := range []string{"", "cpu 1 2\n", "cpu a b c d e f\n", "intr 1 2 3 4 5 6\n"} {
		_, _, err := parseMachineTime([]byte(wrong))
		g.Expect(err).To(HaveOccurred(), wrong)
	}
	var p processors
	p.add(100, 50, time.Unix(0, 0))
	p.add(200, 51, time.Unix(1, 0))
	p.add(300, 101, time.Unix(2, 0))
	busy, full, watched := p.percent()
	g.Expect(busy).To(BeNumerically("~", 74.5))
	g.Expect(full).To(BeNumerically("~", 50))
	g.Expect(watched).To(Equal(2 * time.Second))
}

func TestSeriesWiden(t *testing.T) {
	g := NewWithT(t)
	s := newSeries()
	for i := range 1000 {
		s.record(time.Duration(i)*10*time.Second, time.Duration(i+1)*time.Millisecond)
	}
	points := s.encode()
	g.Expect(len(points)).To(And(BeNumerically("<=", mostPoints), BeNumerically(">", mostPoints/2)))
	var count int64
	for i, point := range points {
		count += point.Count
		if i > 0 {
			g.Expect(point.Seconds - points[i-1].Seconds).To(BeNumerically("==", s.width.Seconds()))
		}
	}
	g.Expect(count).To(BeEquivalentTo(1000), "nothing is lost")
	g.Expect(points[0].P99.Duration).To(BeNumerically("<", points[len(points)-1].P50.Duration))
}

func TestBreach(t *testing.T) {
	g := NewWithT(t)
	longest, most := &metav1.Duration{Duration: time.Second}, int32(1)
	result := func(met bool, count int64) v1alpha1.LoadThresholdResult {
		return v1alpha1.LoadThresholdResult{Met: met, Count: count, Measured: &metav1.Duration{Duration: 2 * time.Second},
			LoadThreshold: v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP99, Max: longest}}
	}
	g.Expect(firstBreach([]v1alpha1.LoadThresholdResult{result(true, 1000), result(false, 99), {}})).To(BeEmpty())
	g.Expect(firstBreach([]v1alpha1.LoadThresholdResult{result(true, 1000), result(false, 100)})).To(ContainSubstring("thresholds[1] is crossed"))
	errors := v1alpha1.LoadThresholdResult{Count: 200, MeasuredPercent: "3.00", LoadThreshold: v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, MaxPercent: &most}}
	g.Expect(firstBreach([]v1alpha1.LoadThresholdResult{errors})).To(ContainSubstring("3.00 of 100 requests failed"))
}

func TestErrorsAreCountedByReason(t *testing.T) {
	g := NewWithT(t)
	r := newRecorder()
	for i := range 300 {
		r.answered("POST", fmt.Sprintf("kind%d", i), 0, errors.New("no"), time.Time{})
	}
	for range 3 {
		r.answered("POST", "kind7", 0, errors.New("again"), time.Time{})
	}
	r.answered("POST", "t", 0, templateError{errors.New("x")}, time.Time{})
	list := r.failures()
	g.Expect(list).To(HaveLen(mostErrors))
	g.Expect(list[0]).To(Equal(v1alpha1.LoadError{Reason: "Unknown", Request: "POST kind7", Count: 4, Message: "no"}))
	g.Expect(r.failed.Load()).To(BeEquivalentTo(304))
	g.Expect(reasonOf(templateError{errors.New("x")})).To(Equal("Template"))
}

func TestNamespacesThatCannotBeRemoved(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(10000, 0)
	leaving := func(name string, since time.Duration, conditions ...corev1.NamespaceCondition) corev1.Namespace {
		at := metav1.NewTime(now.Add(-since))
		return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: &at}, Status: corev1.NamespaceStatus{Conditions: conditions}}
	}
	g.Expect(leftovers{leaving("a", time.Minute)}.String(now)).To(Equal("1 namespace is being removed"))
	g.Expect(leftovers{leaving("a", time.Minute), {}}.String(now)).To(Equal("2 namespaces are being removed"))
	g.Expect(leftovers{leaving("a", time.Minute), leaving("b", 6*time.Minute,
		corev1.NamespaceCondition{Status: corev1.ConditionFalse, Message: "all is read"}, corev1.NamespaceCondition{Status: corev1.ConditionTrue, Message: "finalizers remain"},
	)}.String(now)).To(Equal("namespace b cannot be removed for 6m0s: finalizers remain"))
	g.Expect(leftovers{leaving("b", 6*time.Minute)}.String(now)).To(ContainSubstring("does not say why"))
}
