package kubeburner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func convertFile(t *testing.T, name string) (*v1alpha1.Load, *Result) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join("testdata", name))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return convertText(t, string(config))
}

func convertText(t *testing.T, config string) (*v1alpha1.Load, *Result) {
	t.Helper()
	result, err := Convert([]byte(config), os.DirFS("testdata"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return result.Test.Spec.Load, result
}

func lines(result *Result) string {
	var all []string
	for _, note := range result.Notes {
		all = append(all, note.String())
	}
	return strings.Join(all, "\n")
}

func templateOf(load *v1alpha1.Load, name string) string {
	for _, template := range load.Templates {
		if template.Name == name {
			return template.Object
		}
	}
	return ""
}

// A pod whose Secret has another name would wait for it forever.
// Claim: Imported references still match. Broken: references are not translated.
func TestWhatObjectsAreNamedByStaysTheSame(t *testing.T) {
	g := NewWithT(t)
	load, result := convertFile(t, "services.yml")
	g.Expect(result.LeftOut()).To(BeZero(), lines(result))
	g.Expect(templateOf(load, "deployment")).To(And(
		ContainSubstring("name: {{.Name}}\n"), ContainSubstring(`secretRef: {name: "secret-2"}`), ContainSubstring("secretName: secret-0\n"),
		ContainSubstring(`secretName: "secret-{{.Index}}"`), ContainSubstring("kube-root-ca.crt"), ContainSubstring(`app: "x-0-{{add .Index 1}}"`),
		ContainSubstring("replicas: 1\n"), ContainSubstring("image: pause\n")))
	g.Expect(templateOf(load, "service")).To(ContainSubstring(`app: "x-0-{{add .Index 1}}"`), "it selects the pods that it selects in kube-burner")
	g.Expect(templateOf(load, "secret")).To(ContainSubstring(`{a: "{{.Run}}"}`))
	g.Expect(load.Namespaces).To(BeEquivalentTo(4))
	g.Expect(load.Steps).To(HaveLen(1))
	g.Expect(load.Steps[0].Phases).To(HaveExactElements(
		And(HaveField("Template", "secret"), HaveField("Replicas", BeEquivalentTo(5)), HaveField("Tuning.QPS", BeEquivalentTo(10))),
		And(HaveField("Template", "service"), HaveField("Replicas", BeEquivalentTo(2)), HaveField("Tuning.QPS", BeEquivalentTo(4))),
		And(HaveField("Template", "deployment"), HaveField("Tuning.QPS", BeEquivalentTo(4)), HaveField("Wait", v1alpha1.LoadWaitReady))), "18 a second in all, and all phases end together")
	g.Expect(load.Thresholds).To(HaveExactElements(And(HaveField("Measurement", v1alpha1.LoadPodReady), HaveField("Max.Duration", 5*time.Second)),
		And(HaveField("Measurement", v1alpha1.LoadErrors), HaveField("MaxPercent", HaveValue(BeZero())))), "kube-burner fails if an object is missing")
	g.Expect(lines(result)).To(And(ContainSubstring("mentions svc-1 in a text"), ContainSubstring("counts from 0 in each namespace"), Not(ContainSubstring(".qps"))))
}

func TestIterationsThatShareANamespaceKeepWhatTheyShare(t *testing.T) {
	g := NewWithT(t)
	load, result := convertFile(t, "density.yml")
	g.Expect(result.LeftOut()).To(BeZero(), lines(result))
	g.Expect(load).To(And(HaveField("Namespaces", BeEquivalentTo(2)), HaveField("CleanupPolicy", v1alpha1.LoadCleanupKeep), HaveField("Timeout.Duration", 20*time.Minute)))
	g.Expect(templateOf(load, "reader")).To(ContainSubstring(`configMap: {name: "configmap-{{div .Index 3}}"}`), "three pods read the ConfigMap of their iteration")
	var names []string
	for _, step := range load.Steps {
		names = append(names, step.Name)
	}
	g.Expect(names).To(HaveExactElements("density", "density-pause", "change", "change-2", "remove", "remove-2"), "one patch after the other, each at the whole rate")
	g.Expect(load.Steps[0].Phases).To(HaveExactElements(
		And(HaveField("Template", "configmap"), HaveField("Replicas", BeEquivalentTo(5)), HaveField("Tuning.QPS", BeEquivalentTo(10))),
		And(HaveField("Template", "reader"), HaveField("Replicas", BeEquivalentTo(15)), HaveField("Tuning.QPS", BeEquivalentTo(30)), HaveField("Wait", v1alpha1.LoadWaitNone))))
	g.Expect(load.Steps[2].Phases).To(HaveExactElements(And(HaveField("Action", v1alpha1.LoadPatch), HaveField("Duration.Duration", 70*time.Second), HaveField("Tuning.QPS", BeEquivalentTo(3)))), "210 requests")
	g.Expect(load.Steps[4].Phases).To(HaveExactElements(And(HaveField("Action", v1alpha1.LoadDelete), HaveField("Tuning.QPS", BeEquivalentTo(5)), HaveField("Wait", v1alpha1.LoadWaitGone))))
	for _, said := range []string{
		"ignored: metricsEndpoints: ", "ignored: jobs[0].preLoadImages: ", "ignored: jobs[3].objects[0]: all of them have been deleted by then",
		"changed: jobs[1].objects[0]: an annotation is written, and not what templates/x.json says", "changed: jobs[0]: the namespaces are filled by turns",
	} {
		g.Expect(lines(result)).To(ContainSubstring(said))
	}
}

// What happens to each thing that a configuration may ask for. Nothing is changed without a word.
// Claim: Imports carry out or name everything. Broken: the rate is shared evenly. Also: TestIterationsThatShareANamespaceKeepWhatTheyShare; hub/cli TestAnImportThatLeavesSomethingOutFailsAndWritesTheRest.
func TestWhatALoadTestDoesNotDoIsNamed(t *testing.T) {
	const gc, secret = "global: {gc: true}\n", "{objectTemplate: templates/secret.yml}"
	rated := func(job string) string { return gc + "jobs:\n- {name: a, qps: 5, burst: 1, " + job + "}\n" }
	beside := func(template string) string {
		return rated("objects: [" + secret + ", {objectTemplate: templates/" + template + ", replicas: 2}]")
	}
	for name, c := range map[string]struct{ config, says string }{
		"a function":                   {beside("random.yml"), "left out: jobs[0].objects[1]: 2 Secret objects: templates/random.yml has {{ randAlphaNum 16 }}"},
		"a condition":                  {beside("conditional.yml"), "left out: jobs[0].objects[1]: 2 ConfigMap objects: templates/conditional.yml has {{ if eq .Replica 1 }}"},
		"an unknown variable":          {beside("deployment.yml"), "left out: jobs[0].objects[1]: 2 Deployment objects: templates/deployment.yml has {{.pods}}"},
		"a list as a variable":         {rated("objects: [" + secret + ", {objectTemplate: templates/deployment.yml, inputVars: {pods: [1], image: x}}]"), "{{.pods}}, whose value in inputVars is not a single one"},
		"one that names one left out":  {rated("objects: [" + secret + ", {objectTemplate: templates/random.yml}, {objectTemplate: templates/needs-random.yml}]"), "left out: jobs[0].objects[2]: 1 Pod objects: templates/needs-random.yml names a Secret of templates/random.yml, and that is left out"},
		"a number without expression":  {rated("jobIterations: 3, namespacedIterations: false, objects: [{objectTemplate: templates/pairs.yml, replicas: 2}, {objectTemplate: templates/skips.yml}]"), "left out: jobs[0].objects[1]: 3 Pod objects: templates/skips.yml names the Secret j-{{.Iteration}}-2"},
		"a kind of no namespace":       {beside("volume.yml"), "left out: jobs[0].objects[1]: 2 PersistentVolume objects: templates/volume.yml makes a PersistentVolume, which is in no namespace"},
		"a claim to such a volume":     {rated("objects: [" + secret + ", {objectTemplate: templates/volume.yml}, {objectTemplate: templates/bound-claim.yml}]"), "names a PersistentVolume of templates/volume.yml, and that is left out"},
		"an unknown field":             {beside("unknown-field.yml"), `Kubernetes' Service of v1 has no such field: unknown field "spec.portalIP"`},
		"a kind without rights":        {beside("gateway.yml"), "needs: jobs[0].objects[1]: the agent has no right to a Gateway of networking.istio.io/v1"},
		"aliases":                      {beside("aliases.yml"), "templates/aliases.yml has YAML aliases"},
		"no kind":                      {beside("none.yml"), "templates/none.yml has no kind"},
		"nothing":                      {beside("empty.yml"), "there is nothing in it"},
		"a file that is not there":     {beside("gone.yml"), "left out: jobs[0].objects[1]: 2 objects: reading the template"},
		"outside of the directory":     {beside("../../convert.go"), "left out: jobs[0].objects[1]"},
		"from the network":             {rated("objects: [" + secret + ", {objectTemplate: 'https://x/y.yml'}]"), "is not read from the network"},
		"no template":                  {rated("objects: [" + secret + ", {replicas: 3}]"), "objectTemplate is not set"},
		"no replicas":                  {rated("objects: [" + secret + ", {objectTemplate: templates/pairs.yml, replicas: 0}]"), "ignored: jobs[0].objects[1].replicas"},
		"once":                         {rated("jobIterations: 3, objects: [" + secret + ", {objectTemplate: templates/same.yml, runOnce: true}]"), "1 are made in each of 3 namespaces, and not in one"},
		"the same name":                {rated("objects: [" + secret + ", {objectTemplate: templates/same.yml, replicas: 3}]"), "2 of 3 objects of templates/same.yml in each namespace have the name of another one"},
		"another namespace":            {beside("elsewhere.yml"), "metadata.namespace of templates/elsewhere.yml is replaced"},
		"what is not an object":        {rated("objects: [" + secret + ", x]"), "left out: jobs[0].objects[1]: x is not a map"},
		"1000 namespaces":              {rated("jobIterations: 1000, objects: [" + secret + "]"), "changed: jobs[0]: 1000 namespaces become 100"},
		"uneven iterations":            {rated("jobIterations: 7, iterationsPerNamespace: 3, objects: [" + secret + "]"), "7 iterations do not spread evenly over 3 namespaces: 9 are made"},
		"another job's namespaces":     {gc + "jobs:\n- {name: a, qps: 5, burst: 1, jobIterations: 50, objects: [" + secret + "]}\n- {name: b, qps: 5, burst: 1, jobIterations: 50, namespacedIterations: false, objects: [" + secret + "]}\n", "changed: jobs[1]: the objects of kube-burner's 1 namespaces are spread over 50"},
		"a rate under one":             {gc + "jobs: [{name: a, qps: 0.5, burst: 1, objects: [" + secret + "]}]", "changed: jobs[0].qps: 0.5 requests a second become 1"},
		"a high rate":                  {gc + "jobs: [{name: a, qps: 5000, burst: 1, objects: [{objectTemplate: templates/pairs.yml, replicas: 5000}]}]", "5000 requests a second become 1000"},
		"a burst":                      {gc + "jobs: [{name: a, qps: 5, burst: 50, objects: [" + secret + "]}]", "changed: jobs[0].burst: the first 50 requests are made at the rate of qps"},
		"a rate without burst":         {gc + "jobs: [{name: a, qps: 50, objects: [" + secret + "]}]", "without both of them kube-burner uses 5 and 10"},
		"a rate that is not a number":  {gc + "jobs: [{name: a, qps: fast, burst: 1, objects: [" + secret + "]}]", "changed: jobs[0].qps: fast is not a number"},
		"waiting for each iteration":   {rated("podWait: true, waitWhenFinished: false, objects: [" + secret + "]"), "changed: jobs[0].podWait: "},
		"waiting for claims":           {beside("bound-claim.yml"), "waits until each PersistentVolumeClaim is there, and not until it is ready"},
		"a pause in each iteration":    {rated("jobIterationDelay: 1s, objects: [" + secret + "]"), "changed: jobs[0].jobIterationDelay: "},
		"a duration that is none":      {rated("jobPause: soon, objects: [" + secret + "]"), "changed: jobs[0].jobPause: soon is not a duration"},
		"a truth that is none":         {rated("waitWhenFinished: 1, objects: [" + secret + "]"), "1 is not true or false"},
		"rounds of churn":              {rated("churnConfig: {cycles: 3, percent: 10, mode: objects}, objects: [" + secret + "]"), "a duration in place of 3 rounds: 3m0s"},
		"churn of namespaces":          {rated("churnConfig: {duration: 1m, percent: 10}, objects: [" + secret + "]"), "objects are replaced one by one, and not with their namespaces"},
		"the older churn":              {rated("churn: true, churnDuration: 1m, churnDelay: 5s, objects: [" + secret + "]"), "changed: jobs[0].churnConfig.delay: "},
		"churn of what others name":    {rated("churnConfig: {duration: 1m, percent: 10, mode: objects}, objects: [{objectTemplate: templates/configmap.yml}, {objectTemplate: templates/reader.yml}]"), "left out: jobs[0].churnConfig: the objects of templates/configmap.yml are not replaced"},
		"watches":                      {rated("watchers: [{kind: Pod}], objects: [" + secret + "]"), "left out: jobs[0].watchers[0]: "},
		"hooks":                        {rated("hooks: [{cmd: [x]}], objects: [" + secret + "]"), "changed: jobs[0].hooks: "},
		"virtual machines":             {rated("objects: ["+secret+"]") + "- {name: b, jobType: kubevirt}\n", `left out: jobs[1]: jobs of the type "kubevirt" are not supported`},
		"pods of controllers":          {rated("objects: ["+secret+"]") + "- {name: b, qps: 5, burst: 1, jobType: delete, objects: [{kind: Pod, labelSelector: {a: b}}]}\n", "left out: jobs[1].objects[0]: no earlier job makes a Pod with these labels"},
		"labels of some":               {rated("objects: [{objectTemplate: templates/deployment.yml, replicas: 2, inputVars: {pods: 1, image: x}}]") + "- {name: b, qps: 5, burst: 1, jobType: delete, objects: [{kind: Deployment, labelSelector: {number: 1}}]}\n", "left out: jobs[1].objects[0]: the labels are those of some objects of templates/deployment.yml"},
		"all of a kind":                {rated("objects: ["+secret+"]") + "- {name: b, qps: 5, burst: 1, jobType: read, objects: [{kind: Secret}]}\n", "changed: jobs[1].objects[0]: without a labelSelector"},
		"a threshold without its like": {"global: {gc: true, measurements: [{name: podLatency, thresholds: [{conditionType: Ready, metric: Avg, threshold: 1s}]}]}\njobs: [{name: a, objects: [" + secret + "]}]", "left out: global.measurements[0].thresholds[0]: the threshold Ready Avg 1s"},
		"another measurement":          {"global: {gc: true, measurements: [{name: pprof}]}\njobs: [{name: a, objects: [" + secret + "]}]", `ignored: global.measurements[0]: "pprof" is not measured`},
		"no garbage collection":        {"jobs: [{name: a, objects: [" + secret + "]}]", "changed: global.gc: "},
		"longer than its timeout":      {"global: {gc: true, timeout: 10s}\njobs: [{name: a, qps: 1, burst: 1, objects: [{objectTemplate: templates/pairs.yml, replicas: 60}]}]", "the requests and pauses take 1m0s, which is longer than the timeout of 10s"},
		"no iterations":                {rated("objects: ["+secret+"]") + "- {name: b, jobIterations: 0}\n", "left out: jobs[1]: jobIterations: 0"},
		"what kube-burner has not":     {rated("qqps: 5, objects: [" + secret + "]"), "changed: jobs[0].qqps: "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			load, result := convertText(t, c.config)
			g.Expect(lines(result)).To(ContainSubstring(c.says))
			g.Expect(load.Steps[0].Phases).NotTo(BeEmpty(), "the rest is done")
			g.Expect(result.LeftOut()).To(Equal(strings.Count(lines(result), "left out: ")))
			g.Expect(load.Templates).To(HaveEach(HaveField("Object", Not(Or(ContainSubstring("{{.Replica"), ContainSubstring("{{.JobName"), ContainSubstring("{{.UUID"))))))
		})
	}
}

func TestAFileOfTwoObjectsIsTwoTemplates(t *testing.T) {
	g := NewWithT(t)
	load, result := convertText(t, "global: {gc: true}\njobs: [{name: a, qps: 4, burst: 1, objects: [{objectTemplate: templates/two.yml, replicas: 2}]}]")
	g.Expect(result.Notes).To(BeEmpty(), lines(result))
	g.Expect(load.Templates).To(HaveExactElements(HaveField("Name", "two"), HaveField("Name", "two-2")))
	g.Expect(templateOf(load, "two-2")).To(ContainSubstring(`configMapRef: {name: "two-{{.Index}}"}`))
	g.Expect(load.Steps[0].Phases).To(HaveEach(And(HaveField("Replicas", BeEquivalentTo(2)), HaveField("Tuning", And(HaveField("QPS", BeEquivalentTo(2)), HaveField("Burst", BeEquivalentTo(1)))))))
}

// Claim: Other files are recognized. Broken: a second document is left out silently; the rest not broken alone. Also: TestASecondDocumentIsNotLeftOutSilently.
func TestAFileThatIsNoConfigurationIsRecognized(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return string(text)
	}
	for config, says := range map[string]string{
		"":                          "the file is empty",
		"jobs: [":                   "is not YAML",
		"jobs: []":                  "at least one job",
		"jobs: {a: b}":              "at least one job",
		"just a text":               "has no jobs",
		"global: {}":                "has no jobs",
		"\x00\x01":                  "is binary",
		"jobs:\n- a: 1\n  a: 2":     "already set in map",
		"jobs: null":                "has no jobs",
		"[]":                        "has no jobs",
		"- a":                       "has no jobs",
		`{"jobs": []}`:              "at least one job",
		"jobs: [1]":                 "nothing is left",
		"jobs: [null]":              "nothing is left",
		"\xff\xfej\x00o\x00b\x00":   "is binary",
		"jobs: [{name: {{ .N":       "this configuration of kube-burner is a template: kube-burner fills {{ in",
		strings.Repeat("#\n", 1e6):  "bytes",
		read("templated.yml"):       "this configuration of kube-burner is a template: kube-burner fills {{.GC}}, {{.QPS}} in",
		read("clusterloader.yml"):   "this is a test of clusterloader2",
		read("alerts.yml"):          "profile of kube-burner",
		read("templates/same.yml"):  "this is a manifest of a ConfigMap",
		read("templates/pairs.yml"): "this file is a template",
		"apiVersion: hollowfleet.io/v1alpha1\nkind: LoadTest\nspec: {}":                     "this is a LoadTest already",
		"jobs:\n- {name: a, objects: [{objectTemplate: templates/random.yml}]}":             "nothing is left",
		"jobs:\n- {name: a, jobType: kubevirt}":                                             "nothing is left",
		"jobs: [{name: a, jobType: delete, objects: [{kind: Pod, labelSelector: {a: b}}]}]": "nothing is left",
	} {
		_, err := Convert([]byte(config), os.DirFS("testdata"))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)), "%.60s", config)
	}
}

// Of several documents, kube-burner reads the first.
func TestASecondDocumentIsNotLeftOutSilently(t *testing.T) {
	const one = "jobs: [{name: a, objects: [{objectTemplate: templates/same.yml, replicas: 1}]}]\n"
	for config, refused := range map[string]bool{
		one + "---\n" + one: true, one + "...\n---\nglobal: {gc: true}\n": true, one + "---\nnot: [YAML": true, "# first\n---\n" + one + "---\n" + one: true,
		one: false, "---\n" + one: false, one + "---\n": false, one + "---\n# the end\n": false, one + "...\n": false,
	} {
		_, err := Convert([]byte(config), os.DirFS("testdata"))
		NewWithT(t).Expect(err != nil).To(Equal(refused), "%s: %v", config, err)
		if refused {
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("document")))
		}
	}
}

func TestMoreThanALoadTestMayHaveIsLeftOut(t *testing.T) {
	g := NewWithT(t)
	var config strings.Builder
	config.WriteString("jobs:\n")
	for i := range 20 {
		fmt.Fprintf(&config, "- {name: job-%d, jobIterations: 500, jobPause: 1s, objects: [%s]}\n", i, strings.Repeat("{objectTemplate: templates/same.yml},", 10))
	}
	load, result := convertText(t, config.String())
	g.Expect(len(load.Steps)).To(BeNumerically("<=", mostSteps))
	g.Expect(load.Templates).To(HaveLen(mostTemplates))
	names := map[string]bool{}
	for _, step := range load.Steps {
		g.Expect(len(step.Phases)).To(BeNumerically("<=", mostPhases))
		g.Expect(names).NotTo(HaveKey(step.Name))
		names[step.Name] = true
	}
	g.Expect(lines(result)).To(And(ContainSubstring("16 templates at most"), ContainSubstring("10 kinds of objects are made in 2 steps")))
	g.Expect(result.LeftOut()).To(Equal(20*10 - mostTemplates))
}
