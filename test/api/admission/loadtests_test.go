package admission_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// load is the smallest.
func load() v1alpha1.Load {
	wait := v1alpha1.LoadPhase{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: time.Second}}
	return v1alpha1.Load{Steps: []v1alpha1.LoadStep{{Name: "wait", Phases: []v1alpha1.LoadPhase{wait}}}}
}

// What was measured was measured with the load that the spec says.
// Claim: Only stopping changes a test. Broken: the time can be changed again.
func TestALoadTestIsOnlyStoppedAndItsRunBegunOnce(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	const file = "admission/loadtests.yaml"
	text, err := config.Admission.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Apply(t.Context(), c, fstest.MapFS{file: {Data: text}}, "admission")).To(Succeed())
	run := &v1alpha1.LoadTestRun{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "fixed"}}
	run.Spec.Load, run.Spec.WithStartTime = load(), true
	test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}}
	whole := load()
	test.Spec.Load, test.Spec.ClusterSelector = &whole, &metav1.LabelSelector{}
	change := func(object client.Object, patch string, options ...client.PatchOption) error {
		return c.Patch(t.Context(), object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)), options...)
	}
	for object, refused := range map[client.Object]map[string]string{
		run: {
			`{"spec":{"seed":3}}`:               "spec.seed: only stopped and startTime can be changed: delete the run",
			`{"spec":{"timeout":"3m"}}`:         "spec.timeout: only stopped and startTime",
			`{"spec":{"withStartTime":false}}`:  "spec.withStartTime: only stopped and startTime",
			`{"spec":{"abortOnBreach":true}}`:   "spec.abortOnBreach: only stopped and startTime",
			`{"spec":{"cleanupPolicy":"Keep"}}`: "spec.cleanupPolicy: only stopped and startTime",
			`{"spec":{"steps":[{"name":"other","phases":[{"action":"Wait","duration":"1s"}]}]}}`: "spec.steps: only stopped and startTime",
		},
		test: {
			`{"spec":{"prepareTimeout":"3m"}}`:                                                    "spec.prepareTimeout: only stopped can be changed: delete the load test",
			`{"spec":{"load":{"seed":3}}}`:                                                        "spec.load: only stopped can",
			`{"spec":{"clusterSelector":null,"placementRef":{"namespace":"a","name":"b"}}}`:       "only stopped can",
			`{"spec":{"disruption":{"faults":[{"type":"NotReady"}],"timing":{"duration":"1m"}}}}`: "spec.disruption: only stopped can",
			`{"spec":{"load":null,"preset":{"name":"density"}}}`:                                  "only stopped can",
		},
	} {
		g.Expect(c.Create(t.Context(), object)).To(Succeed())
		for patch, says := range refused {
			g.Eventually(func() error { return change(object, patch, client.DryRunAll) }).WithTimeout(time.Minute).
				Should(MatchError(ContainSubstring(says)), "the API server reads the policy")
		}
		g.Expect(change(object, `{"spec":{"stopped":true}}`, client.DryRunAll)).To(Succeed())
		g.Expect(change(object, `{"metadata":{"labels":{"a":"b"}}}`, client.DryRunAll)).To(Succeed())
	}
	g.Expect(change(run, `{"spec":{"startTime":"2026-01-01T00:00:00Z"}}`)).To(Succeed())
	g.Expect(change(run, `{"spec":{"startTime":"2026-01-01T00:00:09Z"}}`)).To(MatchError(ContainSubstring("spec.startTime: only stopped can be changed")))
	g.Expect(change(run, `{"spec":{"startTime":null}}`)).To(MatchError(ContainSubstring("spec.startTime: only stopped can be changed")))
	g.Expect(change(run, `{"spec":{"stopped":true}}`)).To(Succeed())
}

// A load that cannot be meant is refused before any cluster sees it.
func TestLoadsThatCannotBeMeantAreRefused(t *testing.T) {
	pod := v1alpha1.LoadTemplate{Name: "pod", Object: "{}"}
	second := &metav1.Duration{Duration: time.Second}
	phase := func(phase v1alpha1.LoadPhase) func(*v1alpha1.Load) {
		return func(load *v1alpha1.Load) {
			load.Templates = []v1alpha1.LoadTemplate{pod}
			load.Steps[0].Phases[0] = phase
		}
	}
	threshold := func(threshold v1alpha1.LoadThreshold) func(*v1alpha1.Load) {
		return func(load *v1alpha1.Load) { load.Thresholds = []v1alpha1.LoadThreshold{threshold} }
	}
	for says, changes := range map[string][]func(*v1alpha1.Load){
		"each template of a phase has to be the name of one of templates": {
			phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: "pods", Replicas: 1}),
		},
		"every action but Wait needs a template, and Wait has none": {
			phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Replicas: 1}), phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadWait, Template: "pod", Duration: second}),
		},
		"the actions Wait, Churn, Get, List and Patch need duration": {
			phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadWait}), phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadList, Template: "pod"}),
		},
		"the actions Create and Delete have no duration": {phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: "pod", Replicas: 1, Duration: second})},
		"the action Create needs replicas":               {phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: "pod"})},
		"the action Churn needs churnPercent, and no other has it": {
			phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadChurn, Template: "pod", Duration: second}),
			phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadGet, Template: "pod", Duration: second, ChurnPercent: 3}),
		},
		"the type Ramp needs startQPS, and no other has it": {
			phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: "pod", Replicas: 1, Tuning: v1alpha1.LoadTuning{Type: v1alpha1.LoadRamp}}),
			phase(v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: "pod", Replicas: 1, Tuning: v1alpha1.LoadTuning{StartQPS: 3}}),
		},
		"the measurement Errors needs maxPercent, every other needs max": {
			threshold(v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, Max: second}), threshold(v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady}),
		},
		"only APIRequest and APIServerRequest have a verb and a resource": {threshold(v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Max: second, Verb: "GET"})},
		"timeout: must be from 1s to 24h":                                 {func(load *v1alpha1.Load) { load.Timeout = metav1.Duration{Duration: 25 * time.Hour} }},
	} {
		t.Run(says, func(t *testing.T) {
			for _, change := range changes {
				run := &v1alpha1.LoadTestRun{ObjectMeta: named()}
				run.Spec.Load = load()
				change(&run.Spec.Load)
				NewWithT(t).Expect(testenv.Server().Client.Create(t.Context(), run, client.DryRunAll)).To(MatchError(ContainSubstring(says)))
			}
		})
	}
	for says, change := range map[string]func(*v1alpha1.LoadTest){
		"set exactly one of clusterSelector and placementRef": func(test *v1alpha1.LoadTest) { test.Spec.ClusterSelector = nil },
		"set exactly one of preset and load":                  func(test *v1alpha1.LoadTest) { test.Spec.Preset = &v1alpha1.LoadPreset{Name: "density"} },
		"at most 52 characters":                               func(test *v1alpha1.LoadTest) { test.Name = strings.Repeat("x", 53) },
		"prepareTimeout: must be from 1s to 1h":               func(test *v1alpha1.LoadTest) { test.Spec.PrepareTimeout.Duration = 2 * time.Hour },
	} {
		whole := load()
		test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: uniqueName()}}
		test.Spec.ClusterSelector, test.Spec.Load = &metav1.LabelSelector{}, &whole
		change(test)
		NewWithT(t).Expect(testenv.Server().Client.Create(t.Context(), test, client.DryRunAll)).To(MatchError(ContainSubstring(says)))
	}
	run := &v1alpha1.LoadTestRun{ObjectMeta: named()}
	run.Spec.Load, run.Spec.StartTime = load(), &metav1.Time{Time: time.Unix(1, 0)}
	NewWithT(t).Expect(testenv.Server().Client.Create(t.Context(), run, client.DryRunAll)).To(MatchError(ContainSubstring("spec.startTime: only with withStartTime")))
}
