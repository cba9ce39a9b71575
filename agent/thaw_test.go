package agent_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// metric adds up the agent's metrics of a name whose labels are as given, "key=value".
func metric(g Gomega, address, name string, labels ...string) float64 {
	response, err := http.Get("http://" + address + "/metrics") //nolint:noctx // a test's own server on loopback
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	g.Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, one := range families[name].GetMetric() {
		have := map[string]bool{}
		for _, pair := range one.GetLabel() {
			have[pair.GetName()+"="+pair.GetValue()] = true
		}
		matches := true
		for _, label := range labels {
			matches = matches && have[label]
		}
		if matches {
			sum += one.GetGauge().GetValue() + one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// What happened behind an agent's back in a freeze is known to it before its first act, and what it may take apart
// then is limited.
func TestAfterAFreezeTheAgentListsItsWorldAndTakesItsTime(t *testing.T) {
	t.Parallel()
	var hub *tunnel
	metrics := freeAddress(NewWithT(t))
	f := start(t, "thaw-1", func(o *agent.Options) {
		o.HubKubeconfig, hub = through(NewWithT(t), t, o.HubKubeconfig)
		o.FreezeAfter, o.MetricsAddress = 2*time.Second, metrics
		o.ThawDeletionsPerMinute, o.ThawPeriod = 1, time.Hour
	})
	f.accept()
	f.expectThawed()
	// On a busy machine a probe may be late, and then the agent lists again.
	listed := metric(f, metrics, "hollowfleet_agent_relist_duration_seconds")
	f.Expect(listed).To(BeNumerically(">=", 1), "the start lists too")
	f.Expect(metric(f, metrics, "hollowfleet_agent_frozen")).To(BeZero())
	f.Expect(metric(f, metrics, "hollowfleet_agent_frozen_seconds_total")).To(BeNumerically(">", 0))
	f.Expect(metric(f, metrics, "hollowfleet_agent_freezes_total", "reason=Starting")).To(Equal(1.0))
	f.Expect(metric(f, metrics, "hollowfleet_agent_probes_total", "scope=hub", "outcome=OK")).To(BeNumerically(">=", 3))

	var machines []*v1alpha1.Machine
	for i := range 3 {
		machines = append(machines, f.machine(fmt.Sprintf("thaw-m%d", i)))
	}
	for _, machine := range machines {
		f.Eventually(f.exists(&corev1.Pod{}, hostNamespace, machine.Name)).WithTimeout(agenttest.Wait).Should(Succeed())
	}

	hub.set(true)
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(HaveField("Reason", v1alpha1.ReasonHubUnreachable))
	f.Eventually(func(g Gomega) {
		g.Expect(metric(g, metrics, "hollowfleet_agent_frozen", "scope=hub", "reason=Unreachable")).To(Equal(1.0))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	_, text := f.get("/frozenz")
	f.Expect(text).To(HavePrefix("frozen since "), text)
	f.Expect(text).To(MatchRegexp(`(?m)^hub +Unreachable +last probe `))
	code, body := f.get("/readyz")
	f.Expect(code).To(Equal(http.StatusOK), body)

	// All go at once, behind its back.
	for _, machine := range machines {
		f.Expect(f.admin.Delete(context.Background(), machine)).To(Succeed())
	}
	hub.set(false)
	f.expectThawed()
	f.Expect(metric(f, metrics, "hollowfleet_agent_relist_duration_seconds")).To(BeNumerically(">", listed))
	left := func() (left int) {
		for _, machine := range machines {
			if err := f.exists(&v1alpha1.Machine{}, f.cluster, machine.Name)(); !apierrors.IsNotFound(err) {
				left++
			}
		}
		return left
	}
	f.Eventually(left).WithTimeout(agenttest.Wait).Should(Equal(2), "one may go at once")
	f.Eventually(func(g Gomega) {
		g.Expect(metric(g, metrics, "hollowfleet_agent_thaw_limited_machines_total")).To(Equal(2.0))
		pods := &corev1.PodList{}
		g.Expect(f.admin.List(context.Background(), pods, client.InNamespace(hostNamespace), client.MatchingLabels{v1alpha1.ClusterNameLabel: f.cluster})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(2))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	f.Eventually(func(g Gomega) {
		waiting := 0
		for _, machine := range machines {
			live := &v1alpha1.Machine{}
			if f.exists(live, f.cluster, machine.Name)() != nil {
				continue
			}
			for _, condition := range live.Status.Conditions {
				if condition.Reason == v1alpha1.ReasonThawLimited {
					waiting++
				}
			}
		}
		g.Expect(waiting).To(BeNumerically(">=", 1), "a machine that waits says so")
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	// What is made now was not there in the freeze.
	young := f.machine("thaw-young")
	f.Eventually(f.exists(&corev1.Pod{}, hostNamespace, young.Name)).WithTimeout(agenttest.Wait).Should(Succeed())
	f.Expect(f.admin.Delete(context.Background(), young)).To(Succeed())
	f.Eventually(f.exists(&v1alpha1.Machine{}, f.cluster, young.Name)).WithTimeout(agenttest.Wait).Should(Satisfy(apierrors.IsNotFound))
	f.Expect(metric(f, metrics, "hollowfleet_agent_thaw_limited_machines_total")).To(Equal(2.0), "it waited for no turn")

	f.Eventually(left).WithTimeout(agenttest.Wait).Should(Equal(1), "the next one a minute later")
}
