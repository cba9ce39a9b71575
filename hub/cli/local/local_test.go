//go:build linux

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/local/preflight"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

func TestTheTailPassesLinesOnAndKeepsTheError(t *testing.T) {
	g := NewWithT(t)
	var log, out bytes.Buffer
	tail := &tail{file: &log, out: &out}
	for _, part := range []string{"hub: con", "trol plane ready\nhost: a", "gent started\nerror: running hub: exit status 3\nits log: ", "no memory\n"} {
		log.WriteString(part)
		g.Expect(tail.showNews()).To(Succeed())
	}
	g.Expect(out.String()).To(Equal("  hub: control plane ready\n  host: agent started\n"))
	g.Expect(tail.lastFailure()).To(Equal("running hub: exit status 3\nits log: no memory"))
}

func TestAControlPlaneOutOfSpaceIsAnError(t *testing.T) {
	g := NewWithT(t)
	report := localfleet.Report{Clusters: []localfleet.ControlPlane{{Name: "c1"}, {Name: "c2", Problems: []string{"etcd: etcd out of space"}}}}
	g.Expect(planeError(report)).To(MatchError("control plane of c2: etcd: etcd out of space"))
	report.Clusters = report.Clusters[:1]
	g.Expect(planeError(report)).To(Succeed())
}

func options(t *testing.T) *upOptions {
	bin := t.TempDir()
	for _, name := range programs {
		NewWithT(t).Expect(os.WriteFile(filepath.Join(bin, name), nil, 0o755)).To(Succeed())
	}
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	return &upOptions{hub: cmdutil.NewHub(streams), dir: filepath.Join(t.TempDir(), "fleet"), clusters: 2, workers: workers{machines: 1}, Programs: localfleet.Programs{BinDir: bin, NodesPerPack: 1}, timeout: time.Minute}
}

func TestWhatCannotBeStarted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*upOptions)
		code   int
		says   string
	}{
		"all well":          {func(*upOptions) {}, cmdutil.OK, ""},
		"no machines":       {func(o *upOptions) { o.workers.machines = 0 }, cmdutil.OK, ""},
		"no cluster":        {func(o *upOptions) { o.clusters = 0 }, cmdutil.OK, ""},
		"negative clusters": {func(o *upOptions) { o.clusters = -1 }, cmdutil.BadUsage, "--clusters"},
		"negative machines": {func(o *upOptions) { o.workers.machines = -1 }, cmdutil.BadUsage, "--machines"},
		"no node in a pack": {func(o *upOptions) { o.NodesPerPack = 0 }, cmdutil.BadUsage, "--nodes-per-pack"},
		"no version":        {func(o *upOptions) { o.workers.versions = []string{"v1.36.2", "latest"} }, cmdutil.BadUsage, `"latest" is not a version`},
		"negative timeout":  {func(o *upOptions) { o.timeout = -1 }, cmdutil.BadUsage, "--timeout"},
		"unknown check":     {func(o *upOptions) { o.ignored = []string{"memory", "ram"} }, cmdutil.BadUsage, `--ignore-preflight-errors: want one of memory, cpu, inotify, open-files, tasks, disk, all, got "ram"`},
		"program missing":   {func(o *upOptions) { o.BinDir = t.TempDir() }, cmdutil.Failed, "run make build"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := options(t)
			test.change(o)
			err := o.validateFlags()
			g.Expect(cmdutil.Code(err)).To(Equal(test.code))
			if test.says != "" {
				g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			}
		})
	}
}

func TestAFleetThatDoesNotFitStartsNothing(t *testing.T) {
	g := NewWithT(t)
	o := options(t)
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	o.hub, o.clusters, o.workers.machines, o.Isolation = cmdutil.NewHub(streams), mostClusters, mostMachines, localfleet.IsolationProcess
	err := o.run(t.Context())
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(err).To(MatchError(And(ContainSubstring("nothing was started:\nmemory: the fleet needs "), MatchRegexp("To start it all the same, use --ignore-preflight-errors=memory,cpu"))))
	g.Expect(out.String()).To(And(HavePrefix("Nodes report every 30 s"), MatchRegexp(`(?m)^memory +[0-9.]+ GiB +[0-9.]+ GiB$`)))
	g.Expect(o.dir).NotTo(BeADirectory())

	out.Reset()
	o.dryRun, o.output, o.ignored = true, formatJSON, []string{preflight.All}
	g.Expect(o.run(t.Context())).To(Succeed())
	g.Expect(errOut.String()).To(ContainSubstring("Warning: memory: "))
	var report preflight.Report
	g.Expect(json.Unmarshal(out.Bytes(), &report)).To(Succeed())
	g.Expect(report.Needs).To(Equal(preflight.Fleet{Clusters: mostClusters, Machines: mostMachines, NodesPerPack: 1, Host: true, SlowHeartbeats: true}.Needs()))
	g.Expect(o.dir).NotTo(BeADirectory(), "a dry run")
	g.Expect(o.effective().Heartbeats).To(Equal("slow"), "the same start again is as this one")
}

func TestTheTimeoutGrowsWithTheFleet(t *testing.T) {
	g := NewWithT(t)
	g.Expect(defaultTimeout(3, 3)).To(Equal(6*time.Minute + 9*time.Second))
	g.Expect(defaultTimeout(50, 20)).To(Equal(38*time.Minute + 20*time.Second))
}

func TestClustersTakeTurnsWithVersions(t *testing.T) {
	g := NewWithT(t)
	o := workers{versions: []string{"v1.36.2", "v1.37.1"}}
	g.Expect([]string{o.versionOf(0), o.versionOf(1), o.versionOf(2)}).To(Equal([]string{"v1.36.2", "v1.37.1", "v1.36.2"}))
	g.Expect(workers{}.versionOf(1)).To(BeEmpty())
}

func TestStatusTellsWhatEnded(t *testing.T) {
	g := NewWithT(t)
	report := localfleet.Report{Ready: true, Processes: []localfleet.Running{{Name: "hub", PID: 7, Alive: true}, {Name: "agent c1", PID: 8, Log: "/f/agent.log"}}}
	g.Expect(processError(report, "/f")).To(MatchError("agent c1 is not running (its log: /f/agent.log): end the fleet with kubectl hollow local down --dir /f"))
	report.Processes[1].Alive = true
	g.Expect(processError(report, "/f")).To(Succeed())
	report.Processes[1].SilentPID = 8
	g.Expect(processError(report, "/f")).To(MatchError("agent c1 does not answer (its log: /f/agent.log): let it continue with kill -CONT 8"))
	report.Processes[1].SilentPID = 9
	g.Expect(processError(report, "/f")).To(MatchError(And(HavePrefix("the shared process of agent c1 does not answer"), ContainSubstring("kill -CONT 9;"))))
	g.Expect(processTable(report).Rows[1].Cells).To(ContainElement("does not answer"))
	report.Processes[1].SilentPID, report.Ready = 0, false
	g.Expect(cmdutil.Code(processError(report, "/f"))).To(Equal(cmdutil.Refused))
}

func TestStatusShowsTheHostAndSimulatedClusters(t *testing.T) {
	g := NewWithT(t)
	report := localfleet.Report{
		Hub: localfleet.ControlPlane{Name: "hub", Server: "https://h"}, Host: "host",
		Clusters: []localfleet.ControlPlane{{Name: "s1", UID: "u", Group: "group h1", Problems: []string{"etcd: etcd out of space"}}},
	}
	ready := v1alpha1.Cluster{Status: v1alpha1.ClusterStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue}}}}
	rows := clusterTable(report, map[string]v1alpha1.Cluster{"host": ready, "s1": ready}).Rows
	g.Expect(rows).To(HaveLen(3))
	g.Expect(rows[0].Cells[:3]).To(HaveExactElements("hub", "-", "-"))
	g.Expect(rows[1].Cells).To(And(HaveExactElements("host", "-", "True", "-", "-", "process", "https://h", "-", "-", "")))
	g.Expect(rows[2].Cells[:6]).To(HaveExactElements("s1", "-", "True", "-", "-", "group h1"))
	g.Expect(planeError(report)).To(MatchError("control plane of s1: etcd: etcd out of space"))
}

// Claim: Each fleet of `local up` has a host, and its clusters from a set. Broken: clusters of the fleet's own.
func TestAFleetHasItsClustersFromASet(t *testing.T) {
	g := NewWithT(t)
	o := options(t)
	g.Expect(o.describeFleet()).To(Equal("a hub and 2 workload clusters"))
	g.Expect(o.keeperArgs("id")).To(And(ContainElements("--"+hostFlag, "id"), Not(ContainElement("--"+clusterFlag))))
	o.clusters = 0
	g.Expect(o.describeFleet()).To(Equal("a hub without workload clusters"))
	for clusters, isolation := range map[int]localfleet.Isolation{0: localfleet.IsolationShared, 1: localfleet.IsolationProcess, 9: localfleet.IsolationProcess, 10: localfleet.IsolationShared} {
		g.Expect(localfleet.DefaultIsolation(clusters)).To(Equal(isolation), "%d clusters", clusters)
	}
}

func TestTheSetGivesItsClustersMachines(t *testing.T) {
	g := NewWithT(t)
	o := options(t)
	o.Heartbeats, o.workers = localfleet.HeartbeatsSlow, workers{machines: 4, versions: []string{"v1.36.2"}}
	set, err := o.newSet()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*set.Spec.Replicas).To(BeEquivalentTo(2))
	g.Expect(set.Spec.Template.Spec.MachineDeployments).To(HaveLen(1))
	first := set.Spec.Template.Spec.MachineDeployments[0]
	g.Expect(first.Name).To(Equal(localfleet.WorkersName))
	g.Expect(*first.Replicas).To(BeEquivalentTo(4))
	g.Expect(first.Template.Spec.Versions.Kubelet).To(Equal("v1.36.2"))
	g.Expect(first.Template.Spec.ProviderConfig.Value.Raw).To(MatchJSON(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig",
		"capacity":{"cpu":"8","memory":"32Gi"},"kubelet":{"nodeLeaseDurationSeconds":120,"nodeStatusUpdateFrequency":"30s"}}`))
	for _, none := range []workers{{}, {machines: 4, versions: []string{"v1.36.2", "v1.37.1"}}} {
		o.workers = none
		set, err = o.newSet()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(set.Spec.Template.Spec.MachineDeployments).To(BeEmpty(), "the command creates them")
	}
}

func TestStatusShowsWhereMetricsAre(t *testing.T) {
	g := NewWithT(t)
	report := localfleet.Report{Processes: []localfleet.Running{{Name: "c1", PID: 7}, {Name: "hub", Endpoints: localfleet.Endpoints{Health: "http://127.1.2.3:4", Metrics: "http://127.1.2.3:5/metrics"}}}}
	table := processTable(report)
	g.Expect(table.Rows[0].Cells).To(HaveExactElements("c1", 7, "ENDED", "-", "-", ""))
	g.Expect(table.Rows[1].Cells).To(ContainElements("http://127.1.2.3:4", "http://127.1.2.3:5/metrics"))
}

func TestDownLeavesOtherFilesAlone(t *testing.T) {
	g := NewWithT(t)
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	dir := t.TempDir()
	g.Expect(takeDown(t.Context(), cmdutil.NewHub(streams), filepath.Join(dir, "none"), time.Minute)).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring("No fleet in"))
	g.Expect(os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600)).To(Succeed())
	err := takeDown(t.Context(), cmdutil.NewHub(streams), dir, time.Minute)
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(err).To(MatchError(ContainSubstring("--dir")))
	g.Expect(os.WriteFile(filepath.Join(dir, "fleet.json"), []byte(`{"keeper":{}}`), 0o600)).To(Succeed())
	err = takeDown(t.Context(), cmdutil.NewHub(streams), dir, time.Minute)
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused), "a fleet of an earlier version")
	g.Expect(err).To(MatchError(ContainSubstring("earlier version")))
	g.Expect(filepath.Join(dir, "precious")).To(BeAnExistingFile())
}

func TestDownListsWhatItLeaves(t *testing.T) {
	g := NewWithT(t)
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	dir := filepath.Join(t.TempDir(), "fleet")
	_, err := localfleet.Take(dir, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600)).To(Succeed())
	g.Expect(takeDown(t.Context(), cmdutil.NewHub(streams), dir, time.Minute)).To(Succeed())
	g.Expect(out.String()).To(Equal("Ended the fleet in " + dir + "\nLeft in place, because the fleet did not create it:\n  " + dir + "/precious\n"))
}

func TestUpRefusesADirectoryThatIsNotEmpty(t *testing.T) {
	g := NewWithT(t)
	o := options(t)
	o.dir = filepath.Join(t.TempDir(), "sp ace")
	g.Expect(os.MkdirAll(o.dir, 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(o.dir, "precious"), nil, 0o600)).To(Succeed())
	err := o.run(t.Context())
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(err).To(MatchError(And(ContainSubstring("--dir"), ContainSubstring(`"precious"`), ContainSubstring("choose a directory that is empty"))))
	entries, err := os.ReadDir(o.dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(HaveLen(1))

	g.Expect(os.Remove(filepath.Join(o.dir, "precious"))).To(Succeed())
	_, err = localfleet.Take(o.dir, false)
	g.Expect(err).NotTo(HaveOccurred())
	err = o.run(t.Context())
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(err).To(MatchError(And(ContainSubstring("there is a fleet"), ContainSubstring("local down --dir '"+o.dir+"'"))), "a path with a space is quoted")
}

// Edge case: `local up --help` hid `--dir`.
func TestHelpNamesTheDirectory(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	for _, command := range NewCommand(cmdutil.NewHub(streams)).Commands() {
		NewWithT(t).Expect(command.LocalFlags().Lookup("dir")).NotTo(BeNil(), command.Name())
	}
}

func TestAFleetIsForAsLongAsItsOwnerRuns(t *testing.T) {
	g := NewWithT(t)
	script, err := process.Start(process.Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", "while :; do sleep 0.05; done"}, LogFile: filepath.Join(t.TempDir(), "log")})
	g.Expect(err).NotTo(HaveOccurred())
	owner, err := ownerOf(script.PID())
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := whileRuns(t.Context(), owner)
	defer stop()
	g.Consistently(ctx.Done()).ShouldNot(BeClosed(), "the script runs")
	g.Expect(script.Stop(time.Minute)).To(Succeed())
	g.Eventually(ctx.Done()).WithTimeout(time.Minute).Should(BeClosed())
	g.Expect(context.Cause(ctx)).To(MatchError(ContainSubstring("which the fleet is for, has ended")))

	_, err = ownerOf(script.PID())
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.BadUsage), "it does not run: %v", err)
	nobody, err := ownerOf(0)
	g.Expect(err).NotTo(HaveOccurred())
	stays, stop := whileRuns(t.Context(), nobody)
	g.Expect(stays.Done()).NotTo(BeClosed())
	stop()
	g.Expect(stays.Done()).To(BeClosed())
}

// started is a fleet whose command has ended, or runs.
func started(g Gomega, dir string, isRunning bool) {
	start, err := localfleet.TakeForStart(dir, false, localfleet.Start{Clusters: 2})
	g.Expect(err).NotTo(HaveOccurred())
	if isRunning {
		return
	}
	start.Command.StartTicks++
	content, err := json.Marshal(start)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "start.json"), content, 0o600)).To(Succeed())
}

func TestAStartIsNotContinuedWhileItsCommandRuns(t *testing.T) {
	g := NewWithT(t)
	o := options(t)
	started(g, o.dir, true)
	err := o.run(t.Context())
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(err).To(MatchError(And(ContainSubstring("another command is starting the fleet"), ContainSubstring("local down --dir "+o.dir))))
	g.Expect(filepath.Join(o.dir, "start.json")).To(BeARegularFile())
}

// Edge case: `local status` said that there is no fleet, and `local up` that there is one. Also: test/integration/cli TestAStartThatIsKilled.
func TestAStartThatWasKilledBeforeItsKeeperRan(t *testing.T) {
	g := NewWithT(t)
	o := options(t)
	started(g, o.dir, false)
	report, err := readReport(o.dir)
	g.Expect(err).NotTo(HaveOccurred())
	err = processError(report, o.dir)
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Failed))
	g.Expect(err).To(MatchError(And(ContainSubstring("before the fleet was up: continue with kubectl hollow local up --dir "+o.dir), ContainSubstring("kubectl hollow local down --dir "+o.dir))))
	g.Expect(o.continueFleet(t.Context())).To(BeFalse())
	o.progress = io.Discard
	g.Expect(o.removeHalfMade(t.Context())).To(Succeed())
	g.Expect(o.dir).NotTo(BeADirectory())

	_, err = localfleet.Take(o.dir, false)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = readReport(o.dir)
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Failed))
	g.Expect(err).To(MatchError(ContainSubstring("remove what is left with kubectl hollow local down --dir " + o.dir)))
}

func TestAStartIsNotContinuedWithASuspendedKeeper(t *testing.T) {
	g := NewWithT(t)
	o := options(t)
	started(g, o.dir, false)
	keeper, err := process.Start(process.Spec{Name: "keeper", Path: "/bin/sh", Args: []string{"-c", "while :; do sleep 0.05; done"}, LogFile: filepath.Join(t.TempDir(), "log")})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(keeper.Stop(time.Minute)).To(Succeed()) }()
	defer func() { g.Expect(keeper.Signal(syscall.SIGCONT)).To(Succeed()) }()
	identity, err := keeper.Identity()
	g.Expect(err).NotTo(HaveOccurred())
	content, err := json.Marshal(localfleet.State{Keeper: &identity, Clusters: []string{"hub"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(o.dir, "fleet.json"), content, 0o600)).To(Succeed())
	g.Expect(keeper.Signal(syscall.SIGSTOP)).To(Succeed())
	g.Eventually(identity.IsSuspended).Should(BeTrue())
	_, err = o.continueFleet(t.Context())
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(err).To(MatchError(ContainSubstring("kill -CONT")))
	report, err := readReport(o.dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(processError(report, o.dir)).To(MatchError(ContainSubstring("kill -CONT")))
}

func TestAnInterruptedStartIsAnError(t *testing.T) {
	g := NewWithT(t)
	report := localfleet.Report{Interrupted: true, Ready: true, Processes: []localfleet.Running{{Name: "keeper", PID: 7, Alive: true}}}
	g.Expect(processError(report, "/d")).To(MatchError(ContainSubstring("before all of its clusters and machines were there: continue with kubectl hollow local up --dir /d")))
	report.Processes[0].Alive, report.Resumable = false, true
	g.Expect(processError(report, "/d")).To(MatchError(ContainSubstring("start the fleet again with its data with kubectl hollow local up --dir /d")))
	report.Ready, report.Resumable = false, false
	g.Expect(processError(report, "/d")).To(MatchError(ContainSubstring("before it was up, and keeper is not running")))
	report.Interrupted = false
	g.Expect(processError(report, "/d")).To(MatchError(ContainSubstring("keeper is not running")))
}
