package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const (
	// few is the number of Machines of the small fleet.
	few = 5
	// sharedWrites are those of a scale that do not grow with its Machines: 3 to the MachineDeployment, 2 to its MachineSet,
	// 2 to the status of the Cluster and 2 Events.
	sharedWrites = 9
	// quickSeconds is how long a scale takes on a machine that has nothing else to do, at most.
	quickSeconds = 10
)

// A small fleet is measured whole. Its counts and sizes must hold for any number of Machines; no time is asked for.
// Claim: `make bench` prints times, writes, memory, CPU. Broken: writes not divided by Machines. Also: TestNoFigureMakesBenchFail.
// Claim: At most 3 writes of a Machine to Ready. Broken: as above. Also: hub TestHubWritesOncePerMachineAndNothingAtRest.
// Claim: Other writes do not grow with Machines. Broken: an Event for each Machine.
// Claim: At rest the hub sees Leases only. Broken: the agent's status differs each time that it looks.
// Claim: Memory stays within its budgets. Broken: an agent that holds 100 MiB more.
func TestBenchMeasuresAFleet(t *testing.T) {
	testenv.Long(t)
	g := NewWithT(t)
	t.Setenv("GOGC", "") // The programs are measured as users run them.
	bin, err := testenv.BinDir()
	g.Expect(err).NotTo(HaveOccurred())
	t.Setenv("TMPDIR", t.TempDir())
	out, progress := &bytes.Buffer{}, &bytes.Buffer{}
	g.Expect(run(t.Context(), options{
		clusters: 1, machines: few, surge: "50%", profile: "Fast", settle: settled, rest: 20 * time.Second, timeout: 8 * time.Minute,
		output: "json", binDir: bin, out: out, progress: progress,
	})).To(Succeed(), progress.String)
	var seen figures
	g.Expect(json.Unmarshal(out.Bytes(), &seen)).To(Succeed())

	g.Expect(seen.Machines).To(Equal(few))
	g.Expect(seen.NotReached).To(BeEmpty())
	g.Expect(seen.ReadySeconds).To(BeNumerically(">=", seen.ExistSeconds))
	g.Expect(seen.ExistSeconds).To(BeNumerically(">", 0))
	g.Expect(ownWrites(seen.WritesPerMachine)).To(And(BeNumerically(">", 0), BeNumerically("<=", 3)), "writes of a Machine on its way to Ready: %v", seen.WritesPerMachine)
	// Half a write less, because these are quotients. A scale that takes long has more counts to write: each of
	// the three statuses may be written once in each StatusInterval.
	shared := few * (sum(seen.WritesPerMachine) - ownWrites(seen.WritesPerMachine))
	late := 3 * max(0, seen.ReadySeconds-quickSeconds) / reconciler.StatusInterval.Seconds()
	g.Expect(shared).To(BeNumerically("<", sharedWrites+late+few-0.5),
		"one more for each Machine would not be shared by them: %v in %.1f seconds", seen.WritesPerMachine, seen.ReadySeconds)
	for what := range seen.HubWritesPerMinute {
		g.Expect(what).To(ContainSubstring("leases"), "at rest the hub's API server sees Leases only: %v", seen.HubWritesPerMinute)
	}
	g.Expect(seen.HubWritesPerMinute).NotTo(BeEmpty(), "and it does see the agent's")
	g.Expect(seen.TargetWritesPerMinute).NotTo(BeEmpty(), "Nodes renew their Leases in their own cluster")

	roles := map[string]processFigures{}
	for _, process := range seen.Processes {
		roles[process.Role] = process
	}
	for role, limit := range map[string]float64{"hub": 150, "agent": 80} {
		g.Expect(roles).To(HaveKey(role))
		g.Expect(roles[role].RSSMaxMiB).To(And(BeNumerically(">", 1), BeNumerically("<=", limit)), role)
	}
	g.Expect(roles).To(HaveKey("hollow-node"))
	g.Expect(roles["hollow-node"].Count).To(Equal(few))
	g.Expect(roles["hollow-node"].PrivateMiB).To(And(BeNumerically(">", 1), BeNumerically("<", 17.7)), "peer: upstream's kubemark")
	for _, role := range []string{"hub simcluster", "workload simcluster"} {
		g.Expect(roles).To(HaveKey(role))
	}
}

func sum(counts map[string]float64) float64 {
	total := 0.0
	for _, count := range counts {
		total += count
	}
	return total
}

// The time is up here as soon as the first Machines are Ready, which a test cannot set with --timeout.
func TestWhatWasMeasuredIsPrintedWhenTheTimeIsUp(t *testing.T) {
	testenv.Long(t)
	g := NewWithT(t)
	bin, err := testenv.BinDir()
	g.Expect(err).NotTo(HaveOccurred())
	t.Setenv("TMPDIR", t.TempDir())
	ctx, end := context.WithCancelCause(t.Context())
	out, progress := &bytes.Buffer{}, &bytes.Buffer{}
	opts := options{
		clusters: 1, machines: 1, surge: "1", profile: "Fast", settle: time.Hour, rest: time.Hour, roll: true, timeout: 8 * time.Minute,
		output: "text", binDir: bin, out: out,
		progress: writer(func(content []byte) (int, error) {
			if strings.Contains(string(content), "1 of 1 Machines Ready") {
				end(errTimeUp)
			}
			return progress.Write(content)
		}),
	}
	g.Expect(run(ctx, opts)).To(Succeed(), progress.String)
	g.Expect(out.String()).To(MatchRegexp(`from scale to all Ready on the hub +\d+\.\d s`))
	g.Expect(out.String()).To(ContainSubstring("Not reached: hub writes per Machine, rest, the rolling update\n"))
	g.Expect(out.String()).NotTo(ContainSubstring("PER MACHINE"))
	g.Expect(testenv.ProcessesUnder(os.Getenv("TMPDIR"))).To(BeEmpty())
}

type writer func([]byte) (int, error)

func (w writer) Write(content []byte) (int, error) { return w(content) }

func TestNoFleetInTimeIsNoMeasurement(t *testing.T) {
	g := NewWithT(t)
	bin, err := testenv.BinDir()
	g.Expect(err).NotTo(HaveOccurred())
	t.Setenv("TMPDIR", t.TempDir())
	out := &bytes.Buffer{}
	opts := options{clusters: 1, machines: 1, surge: "1", profile: "Fast", timeout: time.Nanosecond, output: "text", binDir: bin, out: out, progress: out}
	g.Expect(run(t.Context(), opts)).To(MatchError(ContainSubstring("--timeout")))
}

func TestPartsAreShownAsFarAsTheyCame(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	part := &figures{Clusters: 3, Machines: 20, ExistSeconds: 1, MachinesReady: 57, NotReached: []string{"a", "b"}}
	g.Expect(part.print(out)).To(Succeed())
	g.Expect(out.String()).To(And(MatchRegexp(`Ready on the hub in the end +57 of 60\n`), HaveSuffix("Not reached: a, b\n")))
	g.Expect(out.String()).NotTo(ContainSubstring("all Ready"))
	out.Reset()
	part = &figures{Clusters: 3, Machines: 20, ExistSeconds: 1, ReadySeconds: 2, MachinesReady: 60, Roll: &rollFigures{Rolled: 12, Seconds: 300, Surge: "1"}}
	g.Expect(part.print(out)).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(`rolling update of 12 of 60 Machines, surge 1, not finished +300.0 s\n`))
	g.Expect(out.String()).NotTo(Or(ContainSubstring("NaN"), ContainSubstring("Inf"), ContainSubstring("PER REPLACED")))
}

// Bench reports, whatever the figures are.
// Claim: No figure or timeout fails `make bench`. Broken: an error above 60 s; the end of the time is an error. Also: TestWhatWasMeasuredIsPrintedWhenTheTimeIsUp.
func TestNoFigureMakesBenchFail(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	awful := &figures{
		Clusters: 3, Machines: 20, ReadySeconds: 1e6, WritesPerMachine: map[string]float64{"PATCH machines/status": 1000},
		HubWritesPerMinute: map[string]float64{"PUT nodes": 1e6}, Roll: &rollFigures{Seconds: 1e6, Rolled: 60, Surge: "3"},
		Processes: []processFigures{{Role: "hub", Count: 1, RSSMiB: 1e6, CPUSecondsPerMinute: 600}},
	}
	g.Expect(awful.print(out)).To(Succeed())
	for _, want := range []string{
		"3 clusters, 20 Machines each", "to all Ready on the hub  1000000.0 s", "PER MACHINE, CREATION TO READY", "PATCH machines/status",
		"rolling update of all Machines, surge 3  1000000.0 s", "HUB WRITES AT REST", "WORKLOAD CLUSTER WRITES AT REST", "RSS MiB", "CPU s/min AT REST",
	} {
		g.Expect(strings.Join(strings.Fields(out.String()), " ")).To(ContainSubstring(strings.Join(strings.Fields(want), " ")))
	}
	nothing := &figures{}
	g.Expect(nothing.print(out)).To(Succeed())
}

// The hub's part of a roll is what stands between the cause and its effect.
func TestTheHubsAnswersAreMeasured(t *testing.T) {
	g := NewWithT(t)
	begin := time.Now()
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	lives := map[types.UID]*life{
		"old-1": {cluster: "c1", before: true, joined: at(0), deleted: at(11), gone: at(13)},
		"old-2": {cluster: "c1", before: true, joined: at(0), deleted: at(24), gone: at(26)},
		"new-1": {cluster: "c1", created: at(1), joined: at(10)},
		"new-2": {cluster: "c1", created: at(16), joined: at(21)},
		"old-3": {cluster: "c2", before: true, deleted: at(30)},
		"new-3": {cluster: "c2", created: at(2), joined: at(25)},
	}
	seen := answered(lives, 1)
	g.Expect(seen.ReadyToDeletion).To(BeNumerically("~", (1+3+5)/3.0), "1 s and 3 s in c1, 5 s in c2")
	g.Expect(seen.GoneToCreation).To(BeNumerically("~", 3), "new-2 for old-1; nothing came after old-2")
	g.Expect(answered(nil, 1)).To(BeZero())
}

func TestWrongOptionsAreRefused(t *testing.T) {
	with := func(change func(*options)) options {
		opts := options{clusters: 1, machines: 1, surge: "10%", profile: "Fast", output: "text"}
		change(&opts)
		return opts
	}
	for name, test := range map[string]struct {
		opts options
		want string
	}{
		"no cluster":      {with(func(o *options) { o.clusters = 0 }), "--clusters"},
		"no machine":      {with(func(o *options) { o.machines = 0 }), "--machines"},
		"unknown output":  {with(func(o *options) { o.output = "xml" }), "--output"},
		"no surge":        {with(func(o *options) { o.surge = "0" }), "--surge"},
		"a bad surge":     {with(func(o *options) { o.surge = "a few" }), "--surge"},
		"an empty surge":  {with(func(o *options) { o.surge = "" }), "--surge"},
		"a surge below 0": {with(func(o *options) { o.surge = "-1" }), "--surge"},
		"a wrong profile": {with(func(o *options) { o.profile = "Slow" }), "--profile"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(run(t.Context(), test.opts)).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

func TestPodsOfALoadThatCannotBeMadeAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		load loadOptions
		want string
	}{
		"no pods":             {loadOptions{qps: 1}, "--pods"},
		"no requests":         {loadOptions{pods: 1}, "--qps"},
		"no portion":          {loadOptions{pods: 10, qps: 1, every: time.Second}, "--portion"},
		"a part of a portion": {loadOptions{pods: 10, qps: 1, portion: 4, every: time.Second}, "--portion"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(test.load.check()).To(MatchError(ContainSubstring(test.want)))
		})
	}
	NewWithT(t).Expect(loadOptions{pods: 100, qps: 1, portion: 4, every: time.Second}.check()).To(Succeed())
	NewWithT(t).Expect(loadOptions{pods: 10, qps: 1, portion: 4}.check()).To(Succeed(), "without --every there are no portions")
}

func TestSurgeIsANumberOrAPercentage(t *testing.T) {
	g := NewWithT(t)
	for surge, want := range map[string]int{"10%": 20, "1": 1, "1%": 2, "250": 250, "100%": 200} {
		g.Expect(surgeOf(options{machines: 200, surge: surge})).To(Equal(want), surge)
	}
	g.Expect(surgeOf(options{machines: 3, surge: "10%"})).To(Equal(1), "rounded up, as the hub does")
	g.Expect(deploymentOf("c1", "25%").Spec.Strategy.RollingUpdate.MaxSurge.StrVal).To(Equal("25%"))
	g.Expect(deploymentOf("c1", "4").Spec.Strategy.RollingUpdate.MaxSurge.IntVal).To(BeEquivalentTo(4))
}
