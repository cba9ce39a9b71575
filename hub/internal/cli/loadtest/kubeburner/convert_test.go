package kubeburner

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var files = fstest.MapFS{
	"objects/web.yml": {Data: []byte(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{{.Replica}}-{{.Iteration}}
  labels: {run: "{{.UUID}}"}
spec:
  template:
    spec:
      containers:
      - {name: main, image: {{ .image }}}
      volumes:
      - {name: settings, configMap: {name: "settings-{{.Iteration}}"}}
`)},
	"objects/settings.yml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-{{.Iteration}}\ndata: {job: {{.JobName}}}\n")},
	"objects/clever.yml":   {Data: []byte("apiVersion: v1\nkind: ConfigMap\ndata:\n  x: {{ randAlphaNum 16 }}\n")},
	"objects/two.yml":      {Data: []byte("kind: A\n---\nkind: B\n")},
	"objects/long.yml":     {Data: []byte("kind: A\nx: " + strings.Repeat("y", mostBytes))},
	"objects/none.yml":     {Data: []byte("x: y\n")},
}

func convert(t *testing.T, config string) (*v1alpha1.Load, string) {
	t.Helper()
	test, notes, err := Convert([]byte(config), files)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return test.Spec.Load, strings.Join(notes, "\n")
}

func TestAWholeConfiguration(t *testing.T) {
	g := NewWithT(t)
	test, notes, err := Convert([]byte(`
global:
  gc: false
  timeout: 20m
  measurements:
  - name: podLatency
    thresholds:
    - {conditionType: Ready, metric: P99, threshold: 4s}
    - {conditionType: Ready, metric: Avg, threshold: 1s}
  - name: pprof
metricsEndpoints: [{alias: x}]
jobs:
- name: Density_1
  jobIterations: 10
  qps: 20
  burst: 40
  namespacedIterations: true
  iterationsPerNamespace: 2
  namespace: x
  cleanup: true
  waitWhenFinished: true
  jobPause: 30s
  preLoadImages: true
  objects:
  - {objectTemplate: objects/web.yml, replicas: 3, inputVars: {image: pause}}
  - {objectTemplate: objects/settings.yml, replicas: 1, wait: false}
  churnConfig: {percent: 20, duration: 5m, delay: 10s, mode: objects}
- name: read
  jobType: read
  jobIterations: 5
  qps: 10
  objects: [{kind: ConfigMap, apiVersion: v1, labelSelector: {a: b}}]
- name: change
  jobType: patch
  qps: 10
  objects: [{kind: Deployment, objectTemplate: objects/patch.json, patchType: merge}]
- name: remove
  jobType: delete
  waitForDeletion: true
  objects: [{kind: Deployment}, {kind: Secret}]
- name: machines
  jobType: kubevirt
`), files)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(test.Name).To(Equal("density-1"))
	load := test.Spec.Load
	g.Expect(load).To(And(HaveField("Namespaces", BeEquivalentTo(5)), HaveField("CleanupPolicy", v1alpha1.LoadCleanupKeep), HaveField("Timeout.Duration", 20*time.Minute),
		HaveField("Thresholds", ConsistOf(And(HaveField("Measurement", v1alpha1.LoadPodReady), HaveField("Max.Duration", 4*time.Second))))))
	g.Expect(load.Templates).To(HaveExactElements(HaveField("Name", "web"), HaveField("Name", "settings")))
	g.Expect(load.Templates[0].Object).To(And(ContainSubstring("image: pause"), ContainSubstring(`run: "{{.Run}}"`), ContainSubstring(`configMap: {name: "settings-{{.Index}}"}`)), "objects are called by the names that they get")
	g.Expect(load.Templates[1].Object).To(ContainSubstring("job: {{.Run}}"))
	var names []string
	for _, step := range load.Steps {
		names = append(names, step.Name)
	}
	g.Expect(names).To(HaveExactElements("density-1", "density-1-churn", "density-1-pause", "read", "change", "remove"))
	g.Expect(load.Steps[0].Phases).To(HaveExactElements(
		And(HaveField("Action", v1alpha1.LoadCreate), HaveField("Replicas", BeEquivalentTo(6)), HaveField("Tuning.QPS", BeEquivalentTo(10)), HaveField("Tuning.Burst", BeEquivalentTo(10)), HaveField("Wait", v1alpha1.LoadWaitReady)),
		And(HaveField("Replicas", BeEquivalentTo(2)), HaveField("Wait", v1alpha1.LoadWaitNone))))
	g.Expect(load.Steps[1].Phases).To(HaveEach(And(HaveField("Action", v1alpha1.LoadChurn), HaveField("ChurnPercent", BeEquivalentTo(20)), HaveField("Duration.Duration", 5*time.Minute), HaveField("Replicas", BeZero()))))
	g.Expect(load.Steps[2].Phases).To(ConsistOf(And(HaveField("Action", v1alpha1.LoadWait), HaveField("Duration.Duration", 30*time.Second))))
	g.Expect(load.Steps[3].Phases).To(ConsistOf(And(HaveField("Action", v1alpha1.LoadGet), HaveField("Template", "settings"), HaveField("Duration.Duration", 5*time.Second))), "50 requests")
	g.Expect(load.Steps[5].Phases).To(ConsistOf(And(HaveField("Action", v1alpha1.LoadDelete), HaveField("Template", "web"), HaveField("Wait", v1alpha1.LoadWaitGone))))
	for _, note := range []string{
		"global.measurements[0].thresholds[1]: a threshold of Ready Avg 1s is not supported", `global.measurements[1]: the measurement "pprof" is not supported`,
		"metricsEndpoints: not supported", "jobs[0].preLoadImages: not supported", "jobs[0].churnConfig.delay: not supported", "jobs[1].objects[0].labelSelector: not supported",
		`jobs[2].objects[0]: the patch of "objects/patch.json" is not sent`, "jobs[3].objects[1]: no job before it makes objects of the kind Secret", `jobs[4].jobType: "kubevirt" is not supported`,
	} {
		g.Expect(strings.Join(notes, "\n")).To(ContainSubstring(note))
	}
	g.Expect(notes).To(HaveLen(9), strings.Join(notes, "\n"))
}

func TestWhatALoadTestDoesNotHaveIsNamed(t *testing.T) {
	const object = "{objectTemplate: objects/settings.yml}"
	for name, c := range map[string]struct{ job, says string }{
		"a function":               {"objects: [" + object + ", {objectTemplate: objects/clever.yml}]", "objects/clever.yml has {{ randAlphaNum 16 }}, which is not supported"},
		"an unknown variable":      {"objects: [" + object + ", {objectTemplate: objects/web.yml}]", "objects/web.yml has {{ .image }}"},
		"two objects":              {"objects: [" + object + ", {objectTemplate: objects/two.yml}]", "more than one object"},
		"no kind":                  {"objects: [" + object + ", {objectTemplate: objects/none.yml}]", "it has no kind"},
		"a long template":          {"objects: [" + object + ", {objectTemplate: objects/long.yml}]", "longer than 16384 bytes"},
		"no file":                  {"objects: [" + object + ", {objectTemplate: objects/gone.yml}]", "does not exist"},
		"outside of the directory": {"objects: [" + object + ", {objectTemplate: ../secret.yml}]", "../secret.yml"},
		"from the network":         {"objects: [" + object + ", {objectTemplate: 'ftp://x/y.yml'}]", "is not read from the network"},
		"uneven iterations":        {"jobIterations: 7\n  iterationsPerNamespace: 3\n  objects: [" + object + "]", "7 objects do not spread evenly over 3 namespaces: 9 are made"},
		"a rate that is no number": {"qps: fast\n  objects: [" + object + "]", "jobs[0].qps: fast is no number: 5 is used"},
		"a high rate":              {"qps: 5000\n  objects: [" + object + "]", "at most 1000 requests a second"},
		"a duration that is none":  {"jobPause: soon\n  objects: [" + object + "]", `jobs[0].jobPause: "soon" is no duration`},
		"rounds of churn":          {"objects: [" + object + "]\n  churnConfig: {cycles: 3}", "it goes on for 3m0s"},
		"churn of namespaces":      {"objects: [" + object + "]\n  churnConfig: {duration: 1m, mode: namespaces}", "objects are replaced, and not their namespaces"},
		"the older churn":          {"objects: [" + object + "]\n  churn: true\n  churnDuration: 1m\n  churnDelay: 5s", "jobs[0].churnConfig.delay"},
		"hooks":                    {"objects: [" + object + "]\n  hooks: [{cmd: [x]}]", "jobs[0].hooks: not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			load, notes := convert(t, "jobs:\n- name: a\n  "+c.job+"\n")
			NewWithT(t).Expect(notes).To(ContainSubstring(c.says))
			NewWithT(t).Expect(load.Steps[0].Phases).To(HaveLen(1), "the rest is done")
		})
	}
}

func TestWhatIsLeftOfNothingIsAnError(t *testing.T) {
	for config, says := range map[string]string{
		"":                                  "has no jobs",
		"jobs: [":                           "reading the configuration",
		"jobs:\n- {name: a, qps: {{.QPS}}}": "the configuration is a template itself: write a value in place of {{.QPS}}",
		"jobs:\n- {name: a, objects: [{objectTemplate: objects/clever.yml}]}": "nothing is left",
		"jobs:\n- {name: a, jobType: kubevirt}":                               "nothing is left",
	} {
		_, _, err := Convert([]byte(config), files)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)), config)
	}
}

func TestMoreThanALoadTestMayHaveIsLeftOut(t *testing.T) {
	g := NewWithT(t)
	var config strings.Builder
	config.WriteString("jobs:\n")
	for range 20 {
		config.WriteString("- {name: same, jobIterations: 500, jobPause: 1s, objects: [" + strings.Repeat("{objectTemplate: objects/settings.yml},", 10) + "]}\n")
	}
	load, notes := convert(t, config.String())
	g.Expect(load.Steps).To(HaveLen(mostSteps))
	g.Expect(load.Namespaces).To(BeEquivalentTo(mostNamespaces))
	names := map[string]bool{}
	for _, step := range load.Steps {
		g.Expect(len(step.Phases)).To(BeNumerically("<=", mostPhases))
		g.Expect(names).NotTo(HaveKey(step.Name))
		names[step.Name] = true
	}
	g.Expect(notes).To(And(ContainSubstring("8 kinds of objects at a time"), ContainSubstring("32 steps at most: the last 8 are left out")))
}
