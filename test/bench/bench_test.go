package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/testenv"
)

// A small fleet is measured whole. Its counts and sizes must hold for any number of Machines; no time is asked for.
func TestBenchMeasuresAFleet(t *testing.T) {
	g := NewWithT(t)
	bin, err := testenv.BinDir()
	g.Expect(err).NotTo(HaveOccurred())
	t.Setenv("TMPDIR", t.TempDir())
	out, progress := &bytes.Buffer{}, &bytes.Buffer{}
	g.Expect(run(t.Context(), options{
		clusters: 1, machines: 3, settle: 20 * time.Second, rest: 20 * time.Second, timeout: 8 * time.Minute,
		output: "json", binDir: bin, out: out, progress: progress,
	})).To(Succeed(), progress.String)
	var seen figures
	g.Expect(json.Unmarshal(out.Bytes(), &seen)).To(Succeed())

	g.Expect(seen.Machines).To(Equal(3))
	g.Expect(seen.ReadySeconds).To(BeNumerically(">=", seen.ExistSeconds))
	g.Expect(seen.ExistSeconds).To(BeNumerically(">", 0))
	ofMachines := 0.0
	for what, count := range seen.WritesPerMachine {
		if strings.HasPrefix(what, "machines ") || strings.HasPrefix(what, "machines/") {
			ofMachines += count
		}
	}
	g.Expect(ofMachines).To(And(BeNumerically(">", 0), BeNumerically("<=", 3)), "writes of a Machine on its way to Ready: %v", seen.WritesPerMachine)
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
	g.Expect(roles["hollow-node"].Count).To(Equal(3))
	g.Expect(roles["hollow-node"].PrivateMiB).To(And(BeNumerically(">", 1), BeNumerically("<", 17.7)), "peer: upstream's kubemark")
	for _, role := range []string{"hub simcluster", "workload simcluster"} {
		g.Expect(roles).To(HaveKey(role))
	}
}

// Bench reports, whatever the figures are.
func TestNoFigureMakesBenchFail(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	awful := &figures{
		Clusters: 3, Machines: 20, ReadySeconds: 1e6, WritesPerMachine: map[string]float64{"PATCH machines/status": 1000},
		HubWritesPerMinute: map[string]float64{"PUT nodes": 1e6}, Roll: &rollFigures{Seconds: 1e6},
		Processes: []processFigures{{Role: "hub", Count: 1, RSSMiB: 1e6, CPUSecondsPerMinute: 600}},
	}
	g.Expect(awful.print(out)).To(Succeed())
	for _, want := range []string{
		"3 clusters, 20 Machines each", "to all Ready on the hub  1000000.0 s", "PER MACHINE, CREATION TO READY", "PATCH machines/status",
		"HUB WRITES AT REST", "WORKLOAD CLUSTER WRITES AT REST", "RSS MiB", "CPU s/min AT REST",
	} {
		g.Expect(strings.Join(strings.Fields(out.String()), " ")).To(ContainSubstring(strings.Join(strings.Fields(want), " ")))
	}
	nothing := &figures{}
	g.Expect(nothing.print(out)).To(Succeed())
}

func TestWrongOptionsAreRefused(t *testing.T) {
	for name, opts := range map[string]options{
		"no cluster": {machines: 1, output: "text"}, "no machine": {clusters: 1, output: "text"}, "unknown output": {clusters: 1, machines: 1, output: "xml"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(run(t.Context(), opts)).NotTo(Succeed()) })
	}
}
