package loadtruth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

func rawVersion(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version}
}

// stopFor stops a part of a cluster for a time.
func stopFor(ctx context.Context, part fleettest.Part, member *localfleet.Member, during time.Duration) {
	GinkgoHelper()
	mend, err := fleet.Break(ctx, fleettest.Fault{Part: part, Way: fleettest.Stop}, member)
	Expect(err).NotTo(HaveOccurred())
	select {
	case <-ctx.Done():
	case <-time.After(during):
	}
	Expect(mend(ctx)).To(Succeed())
}

// hollowNodes are the processes of the hollow nodes of a cluster's Machines.
func hollowNodes(ctx context.Context, member *localfleet.Member) []int {
	GinkgoHelper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	Expect(err).NotTo(HaveOccurred())
	machines := fleet.MachinesOf(ctx, Default, member, pool)
	var found []int
	for _, process := range processes {
		program, err := os.Readlink(filepath.Join(process, "exe"))
		if err != nil || filepath.Base(program) != "hollow-node" {
			continue // Ended, or another's.
		}
		arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(process, "environ"))
		if slices.ContainsFunc(machines, func(m v1alpha1.Machine) bool { return strings.Contains(string(arguments)+string(environment), m.Name) }) {
			pid, err := strconv.Atoi(filepath.Base(process))
			Expect(err).NotTo(HaveOccurred())
			found = append(found, pid)
		}
	}
	Expect(len(found)).To(BeNumerically(">=", nodesOfEach), "the hollow nodes of %s", member.Name)
	return found
}

var _ = Describe("The report of a load test", func() {
	It("should count pods that are never Ready, and say why, in the verdict and beside it", func(ctx SpecContext) {
		witness := watchPods(ctx, fleet.Members[0])
		none := int32(0)
		test := start(ctx, "unready", v1alpha1.Load{
			Templates:  []v1alpha1.LoadTemplate{{Name: "pod", Object: everySecond}},
			Steps:      []v1alpha1.LoadStep{creating("pod", 20, 10), lasting(12 * time.Second)},
			Thresholds: []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadPodReady, Max: most(time.Minute)}, {Measurement: v1alpha1.LoadErrors, MaxPercent: &none}},
		}, "c1")
		over(ctx, test)
		seen, ready, _ := witness.counts()
		Expect(seen).To(Equal(20))
		Expect(ready).To(Equal(10))
		run := runOf(ctx, Default, test, "c1")
		Expect(run.Status.Progress).To(And(HaveField("PodsCreated", BeEquivalentTo(seen)), HaveField("PodsReady", BeEquivalentTo(ready))))
		Expect(measuredBy(run, v1alpha1.LoadPodReady, "")).To(And(HaveField("Count", BeEquivalentTo(seen)), HaveField("Unfinished", BeEquivalentTo(seen-ready)),
			HaveField("P99.Duration", BeNumerically(">=", 11*time.Second))), "they have waited at least as long as the steps took")
		Expect(run.Status.Unready[0]).To(And(HaveField("Count", BeNumerically(">", 0)), HaveField("Reason", ContainSubstring("ImagePull"))))
		Expect(test.Status.Verdict).To(Equal(v1alpha1.LoadMissed), test.Status.Message)
		Expect(test.Status.Message).To(And(ContainSubstring("10 of 20 pods were never Ready"), ContainSubstring("ImagePull")))
	}, SpecTimeout(fleettest.Patience))

	It("should not let two good clusters hide a bad one", func(ctx SpecContext) {
		witnesses := map[string]*podWitness{}
		for _, member := range fleet.Members {
			witnesses[member.Name] = watchPods(ctx, member)
		}
		c3 := fleet.Members[2]
		pids := hollowNodes(ctx, c3)
		for _, pid := range pids { // Short enough for no heartbeat to be late: what this cluster measures is true.
			Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
		}
		goOn := func() {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
		DeferCleanup(goOn)
		test := start(ctx, "onebad", v1alpha1.Load{
			Templates:  []v1alpha1.LoadTemplate{{Name: "pod", Object: podOnPool}},
			Steps:      []v1alpha1.LoadStep{creating("pod", 4, 10), lasting(5 * time.Second)},
			Thresholds: []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP50, Max: most(5 * time.Second)}},
		})
		reaches(ctx, test, "c3", func(s *v1alpha1.LoadTestRunStatus) bool { return s.EndTime != nil })
		goOn()
		over(ctx, test)
		for cluster, witness := range witnesses {
			seen, ready, _ := witness.counts()
			run := runOf(ctx, Default, test, cluster)
			Expect(run.Status.Progress.PodsCreated).To(BeEquivalentTo(seen), cluster)
			if cluster == "c3" {
				Expect(run.Status.Verdict).To(BeElementOf(v1alpha1.LoadMissed, v1alpha1.LoadInvalid), run.Status.Message)
				Expect(measuredBy(run, v1alpha1.LoadPodReady, "").Unfinished).To(BeEquivalentTo(4))
			} else {
				Expect(run.Status.Progress.PodsReady).To(BeEquivalentTo(ready), cluster)
			}
		}
		Expect(test.Status.Verdict).NotTo(Equal(v1alpha1.LoadPassed), test.Status.Message)
		Expect(test.Status.Message).To(ContainSubstring("c3"))
		if test.Status.Invalid == 0 {
			Expect(test.Status).To(And(HaveField("Verdict", v1alpha1.LoadMissed), HaveField("Missed", BeEquivalentTo(1))))
			Expect(test.Status.Thresholds[0].MissedIn).To(Equal([]string{"c3"}))
		}
	}, SpecTimeout(fleettest.Patience))

	It("should show an outage of the API server in its percentiles, as a client beside it sees it", func(ctx SpecContext) {
		c1 := fleet.Members[0]
		const outage, during = 5 * time.Second, 15 * time.Second
		test := start(ctx, "outage", v1alpha1.Load{
			Templates: []v1alpha1.LoadTemplate{{Name: "map", Object: plainMap}},
			Steps: []v1alpha1.LoadStep{creating("map", 10, 50), {Name: "get", Phases: []v1alpha1.LoadPhase{
				{Action: v1alpha1.LoadGet, Template: "map", Duration: most(during), Tuning: v1alpha1.LoadTuning{QPS: 200}},
			}}},
			Thresholds: []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadAPIRequest, Verb: "GET", Quantile: v1alpha1.LoadP90, Max: most(time.Second)}},
		}, "c1")
		reaches(ctx, test, "c1", func(s *v1alpha1.LoadTestRunStatus) bool { return s.Progress.Step == "get" })
		witness, wait := askAtFixedTimes(ctx, c1, 50*time.Millisecond, during-3*time.Second)
		<-time.After(time.Second) // Some requests before the outage.
		stopFor(ctx, fleettest.TargetServer, c1, outage)
		wait()
		over(ctx, test)
		run := runOf(ctx, Default, test, "c1")
		got := measuredBy(run, v1alpha1.LoadAPIRequest, "GET")
		AddReportEntry("outage", fmt.Sprintf("p90 %s here, %s in the report; longest %s here, %s there; %d delayed", witness.quantile(0.9), got.P90.Duration, witness.quantile(1), got.Max.Duration, run.Status.Progress.Delayed))
		Expect(witness.quantile(0.9)).To(BeNumerically(">", 2*time.Second))
		Expect(got.P90.Duration).To(BeNumerically(">", 2*time.Second), "a third of the requests were due while nothing was answered")
		// Ten times as many requests as the witness makes pile up meanwhile, and a busy machine takes long to work them off: they wait for
		// their turn, which the report shows apart.
		waited := measuredBy(run, v1alpha1.LoadAPIRequestWait, "").Max.Duration
		Expect(got.Max.Duration).To(BeNumerically(">", witness.quantile(1)-1500*time.Millisecond))
		Expect(got.Max.Duration).To(BeNumerically("<", witness.quantile(1)+waited+1500*time.Millisecond))
		Expect(got.Count).To(BeEquivalentTo(int64(during/time.Second)*200), "all that was asked was asked")
		Expect(waited).To(BeNumerically(">", time.Second), "100 are under way after half a second")
		Expect(run.Status.Verdict).NotTo(Equal(v1alpha1.LoadPassed), run.Status.Message)
		Expect(test.Status.Verdict).NotTo(Equal(v1alpha1.LoadPassed), test.Status.Message)
		Expect(run.Status.Thresholds[0].Met).To(BeFalse())
	}, SpecTimeout(fleettest.Patience))

	It("should not take a stop of the agent for the cluster, neither for slow nor for fast", func(ctx SpecContext) {
		c1 := fleet.Members[0]
		witness := watchPods(ctx, c1)
		test := start(ctx, "agentstop", v1alpha1.Load{
			Templates:  []v1alpha1.LoadTemplate{{Name: "web", Object: deployedPods}},
			Steps:      []v1alpha1.LoadStep{lasting(2 * time.Second), creating("web", 1, 10), {Name: "hold", Phases: lasting(12 * time.Second).Phases}},
			Thresholds: []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadPodReady, Max: most(500 * time.Millisecond)}},
		}, "c1")
		Eventually(ctx, func() int { seen, _, _ := witness.counts(); return seen }).WithTimeout(fleettest.Patience).WithPolling(time.Millisecond).Should(BeNumerically(">", 0))
		stopFor(ctx, fleettest.Agent, c1, 6*time.Second)
		over(ctx, test)
		run := runOf(ctx, Default, test, "c1")
		_, ready, longest := witness.counts()
		got := measuredBy(run, v1alpha1.LoadPodReady, "")
		AddReportEntry("agent stopped", fmt.Sprintf("longest %s here, %s to %s in the report", longest, got.P50.Duration, got.Max.Duration))
		Expect(got.Count).To(BeEquivalentTo(ready))
		Expect(got.Max.Duration).To(BeNumerically(">=", longest/2-time.Second), "a backlog of the watch is no speed")
		Expect(run.Status.Verdict).To(Equal(v1alpha1.LoadInvalid), run.Status.Message)
		Expect(run.Status.Invalid).To(ContainElement(ContainSubstring("the agent stalled")))
		Expect(run.Status.Simulator).To(And(HaveField("Stalls", BeNumerically(">=", 1)), HaveField("LongestStall.Duration", BeNumerically(">", 4*time.Second))))
		Expect(test.Status.Verdict).To(Equal(v1alpha1.LoadInvalid), test.Status.Message)
		Expect(test.Status.Message).To(And(ContainSubstring("c1"), ContainSubstring("stalled")))
	}, SpecTimeout(fleettest.Patience))

	It("should notice hollow nodes that are stopped nine tenths of the time", func(ctx SpecContext) {
		testenv.Long(GinkgoTB())
		c2 := fleet.Members[1]
		pids := hollowNodes(ctx, c2)
		limited, cancel := context.WithCancel(ctx)
		gone := make(chan struct{})
		go func() { // As cpulimit does.
			defer close(gone)
			for limited.Err() == nil {
				for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
					for _, pid := range pids {
						_ = syscall.Kill(pid, signal)
					}
					<-time.After(map[syscall.Signal]time.Duration{syscall.SIGSTOP: 900 * time.Millisecond, syscall.SIGCONT: 100 * time.Millisecond}[signal])
				}
			}
		}()
		DeferCleanup(func() { cancel(); <-gone })
		test := start(ctx, "starved", v1alpha1.Load{
			Templates:  []v1alpha1.LoadTemplate{{Name: "pod", Object: podOnPool}},
			Steps:      []v1alpha1.LoadStep{creating("pod", 10, 2), lasting(30 * time.Second)},
			Thresholds: []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadPodReady, Max: most(fleettest.Patience)}},
		}, "c2", "c3")
		over(ctx, test)
		starved, control := runOf(ctx, Default, test, "c2"), runOf(ctx, Default, test, "c3")
		AddReportEntry("starved", fmt.Sprintf("p99 %s, and %s beside it: %v, %v", measuredBy(starved, v1alpha1.LoadPodReady, "").P99.Duration,
			measuredBy(control, v1alpha1.LoadPodReady, "").P99.Duration, starved.Status.Invalid, control.Status.Invalid))
		Expect(starved.Status.Verdict).To(Equal(v1alpha1.LoadInvalid), starved.Status.Message)
		Expect(starved.Status.Invalid).To(ContainElement(ContainSubstring("the kubelets of 2 of 2 Nodes")))
		Expect(test.Status.Verdict).To(Equal(v1alpha1.LoadInvalid), test.Status.Message)
	}, SpecTimeout(fleettest.Patience))
})
