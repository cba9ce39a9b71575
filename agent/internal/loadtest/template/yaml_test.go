package template

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// bomb is YAML that becomes many times as long when its aliases are followed.
func bomb(anchors, each int) string {
	text := "apiVersion: v1\nkind: ConfigMap\ndata:\n  a0: &a0 " + strings.Repeat("x", 1000) + "\n"
	for i := range anchors {
		text += fmt.Sprintf("  a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), each), ","))
	}
	return text
}

// Claim: Short templates stay small, and are reckoned by their largest object. Broken: code before: "1e-2000000000" was being read after two minutes; 7 GB allocated to look at 500 MB of text; the pods of the object with index 0 alone. Also: TestTheLookBeforehandIsBounded, TestARunThatWouldFillEtcdIsRefusedBeforeTheFirstRequest, TestNoObjectAsksForMorePodsThanThoseThatWereLookedAt, TestANegativeNumberOfPodsTakesNothingOffTheRest; agent/internal/loadtest/confine TestQuantitiesThatCostMinutesAreRefusedAtOnce.
// Claim: Short templates stay small. Broken: aliases are followed. Also: agent/internal/loadtest TestAnswersAreNotKept.
func TestShortTemplatesDoNotBecomeLargeObjects(t *testing.T) {
	for name, test := range map[string]struct{ object, want string }{
		"aliases of aliases":   {bomb(3, 100), "anchor or an alias"},
		"one alias many times": {"apiVersion: v1\nkind: ConfigMap\nx: &x " + strings.Repeat("x", 1000) + "\ny: [" + strings.Repeat("*x,", 4000) + "*x]", "anchor or an alias"},
		"a merge key":          {"apiVersion: v1\nkind: ConfigMap\nx: &x {a: b}\ny: {<<: *x}", "anchor or an alias"},
		"an anchor by itself":  {"apiVersion: v1\nkind: ConfigMap\ndata: &x {a: b}", "anchor or an alias"},
		"an anchor of a branch": {
			"apiVersion: v1\nkind: ConfigMap\n{{if .Index}}x: &x {a: b}\ny: *x{{end}}", "anchor or an alias",
		},
		"text beyond the API's":   {"apiVersion: v1\nkind: ConfigMap\ndata: {a: " + strings.Repeat("x", 20_000) + "}", "16384 at most"},
		"depth":                   {"apiVersion: v1\nkind: ConfigMap\ndata: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "levels deep"},
		"depth beyond the parser": {"apiVersion: v1\nkind: ConfigMap\ndata: " + strings.Repeat("[", 16_000), "reading the YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run := &v1alpha1.LoadTestRun{}
			template, err := parseTemplate(run, v1alpha1.LoadTemplate{Name: "t", Object: test.object}, limits(t))
			if err == nil {
				err = template.surveyObjects(t.Context(), []rendering{{}, {1, 0}})
			}
			runtime.ReadMemStats(&after)
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(after.TotalAlloc-before.TotalAlloc).To(BeNumerically("<", 64<<20), "it does not cost memory")
		})
	}
}

// A template of 16 kilobytes may become a megabyte, and a run may ask for a million of its objects: what is looked at beforehand is
// bounded.
func TestTheLookBeforehandIsBounded(t *testing.T) {
	g := NewWithT(t)
	run := &v1alpha1.LoadTestRun{}
	run.Name = strings.Repeat("n", 253)
	long := "apiVersion: v1\nkind: ConfigMap\ndata: {a: '{{if .Index}}{{end}}" + strings.Repeat("{{.Run}}", 1900) + "'}"
	template, err := parseTemplate(run, v1alpha1.LoadTemplate{Name: "t", Object: long}, limits(t))
	g.Expect(err).NotTo(HaveOccurred())
	var all []rendering
	for i := range 1000 {
		all = append(all, rendering{index: i})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g.Expect(template.surveyObjects(t.Context(), all)).To(Succeed())
	runtime.ReadMemStats(&after)
	g.Expect(after.TotalAlloc-before.TotalAlloc).To(BeNumerically("<", 1<<30), "500 MB of text in all")
	g.Expect(template.largest).To(BeNumerically(">", 400_000), "it was looked at")

	many := "apiVersion: v1\nkind: ConfigMap\ndata: {a: '" + strings.Repeat("{{if .Index}}b{{end}}", 700) + "'}"
	template, err = parseTemplate(run, v1alpha1.LoadTemplate{Name: "t", Object: many}, limits(t))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(template.surveyObjects(t.Context(), all[:1])).To(MatchError(ContainSubstring("700 conditions and comparisons, and 64 at most")))
}

func TestSignsThatAreNotAliases(t *testing.T) {
	g := NewWithT(t)
	object := "apiVersion: batch/v1\nkind: CronJob\nspec: {schedule: '*/5 * * * *', jobTemplate: {spec: {template: {spec: {containers: [{name: c, args: [\"a & b\"]}]}}}}}"
	_, err := parseTemplate(&v1alpha1.LoadTestRun{}, v1alpha1.LoadTemplate{Name: "t", Object: object}, limits(t))
	g.Expect(err).NotTo(HaveOccurred())
}
