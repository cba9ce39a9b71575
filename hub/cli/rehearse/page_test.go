package rehearse

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/report"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

func of(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func sampleReport(drains int) *report.Report {
	start := metav1.NewTime(time.Date(2026, 11, 28, 22, 0, 0, 0, time.UTC))
	end := metav1.NewTime(start.Add(5 * time.Minute))
	r := &report.Report{
		Name: "r", Verdict: report.Failed, Message: "1 finding <b>", Start: &start, End: &end, Versions: shape.Versions{From: "v1.36", To: "v1.37", Kubelet: "v1.37.0"},
		Groups:             []shape.Group{{Name: "blue", Nodes: 2, Labels: map[string]string{"pool": "blue"}, Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}, Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3900m")}}},
		Findings:           []string{"<script>alert(1)</script>"},
		Phases:             []report.Phase{{Name: "control plane to v1.37", Start: start, Duration: of(20 * time.Second)}, {Name: "kubelets", Start: start, Duration: of(time.Minute), Failure: "late"}},
		Skew:               []shape.SkewProblem{{Step: "now", Group: "old", Problem: "too old", Remedy: "upgrade"}},
		Budgets:            []report.Budget{{Name: "shop/web", Drains: 1, Never: "maxUnavailable: 0"}},
		NotScheduledBefore: []observe.Unscheduled{{Workload: "Deployment shop/big", Pods: 1, Reason: "0/2 nodes"}}, NotScheduledAfter: []observe.Unscheduled{{Workload: "Deployment shop/big", Pods: 2}},
		Workloads:   []report.Dip{{Workload: "Deployment shop/web", Want: 2, None: of(time.Second)}},
		Differences: []string{"no webhooks"}, Unknown: report.Unknown,
	}
	for index := range drains {
		one := report.Drain{Node: fmt.Sprintf("n%d", index), Outcome: observe.Drained, After: of(time.Minute), Duration: of(10 * time.Second)}
		if index == 0 {
			one.Outcome, one.Blocks = observe.TimedOut, []report.Block{{Budget: "shop/web", Duration: of(8 * time.Second), Pods: 1}}
		}
		r.Drains = append(r.Drains, one)
	}
	return r
}

// Claim: The page of a rehearsal is one page without scripts that says what it leaves out, and escapes what it shows. Broken: a finding written as HTML.
func TestThePageOfARehearsal(t *testing.T) {
	for _, drains := range []int{0, 3, 1000} {
		g := NewWithT(t)
		var out bytes.Buffer
		g.Expect(writePage(&out, sampleReport(drains))).To(Succeed())
		text := out.String()
		_, err := html.Parse(strings.NewReader(text))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(text).NotTo(ContainSubstring("<script"))
		g.Expect(text).NotTo(MatchRegexp(`(src|href)=`))
		g.Expect(text).NotTo(ContainSubstring("ZgotmplZ"))
		g.Expect(text).To(And(ContainSubstring("pool=blue"), ContainSubstring("gpu:NoSchedule"), ContainSubstring("3900m"), ContainSubstring("maxUnavailable: 0"), ContainSubstring("no webhooks"), ContainSubstring("--bg: #fcfcfb")))
		if drains > 0 {
			g.Expect(text).To(ContainSubstring("n0: TimedOut in 10s, held by shop/web 8s"))
		}
		if drains == 1000 {
			g.Expect(text).To(And(ContainSubstring("800 more drains are left out"), ContainSubstring("922 more are left out")))
		}
	}
}
