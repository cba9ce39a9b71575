package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func scaleOptionsFor(change func(*scaleOptions)) scaleOptions {
	opts := scaleOptions{
		options: options{clusters: 50, machines: 20, output: "text"}, scaleTo: []int{200, 1000},
		load: loadOptions{pods: 100, qps: 1, portion: 4, every: time.Second, readyWithin: readyWithin}, kwokNodes: 500, kubemarkNodes: 5, kwokMachines: 1000, atOnce: 4,
	}
	change(&opts)
	return opts
}

// Claim: `make bench-scale` leaves out a mode that the machine does not hold, and says why. Broken: new.
func TestATableOfModesSaysWhatWasNotMeasured(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	g.Expect(scaleReport{
		Clusters: 50, Machines: 20,
		Modes: []scaleFigures{
			{Mode: "processes", NotMeasured: []string{"the fleet: memory: the fleet needs 30.0 GiB"}},
			{
				Mode: "packs", Plane: cost{AnonymousMiB: 265.34, PrivateMiB: 266, CPUSecondsPerMinute: 1.3714}, UpSeconds: 27.4, Scales: []scaledCluster{{200, 19.6}},
				Load: &loadFigures{
					Verdict: v1alpha1.LoadPassed, CPUBusyPercent: 58,
					Results: []v1alpha1.LoadTestResult{{LoadLatency: v1alpha1.LoadLatency{Measurement: v1alpha1.LoadPodReady, P99: metav1.Duration{Duration: 4213 * time.Millisecond}}}},
				},
			},
		},
		Peers: []peerFigures{
			{Name: rowKwok, Version: "v0.8.0", Nodes: 500, Processes: 1, Total: cost{AnonymousMiB: 25, PrivateMiB: 71, CPUSecondsPerMinute: 2.3}, Node: cost{AnonymousMiB: 0.05, PrivateMiB: 0.14, CPUSecondsPerMinute: 0.0046}},
			{Name: rowKubemark, Nodes: 5, NotMeasured: "operation not permitted"},
		},
	}.printTable(scaleOptionsFor(func(o *scaleOptions) { o.out, o.kwok = out, "/kwok" }))).To(Succeed())
	g.Expect(out.String()).To(And(
		MatchRegexp(`50 clusters, 20 Machines each +processes +packs\n`),
		MatchRegexp(`control plane without nodes: memory \(private\) +- +265\.3 \(266\) MiB\n`),
		MatchRegexp(`control plane without nodes: CPU +- +1\.37 s/min\n`),
		MatchRegexp(`from local up to all Ready +- +27 s\n`),
		MatchRegexp(`one cluster: from 1 to 200 Ready +- +20 s\n`),
		MatchRegexp(`one cluster: from 1 to 1000 Ready +- +-\n`),
		MatchRegexp(`load test, 5000 pods: verdict at 5s +- +Passed\n`),
		MatchRegexp(`load test, 5000 pods: pods Ready within \(99 %\) +- +4\.2 s\n`),
		MatchRegexp(`load test, 5000 pods: processors busy +- +58 %\n`),
		ContainSubstring("Not measured with processes: the fleet: memory: the fleet needs 30.0 GiB\n"),
		MatchRegexp(`kwok v0\.8\.0 +500 \(1\) +25 \(71\) MiB +2\.3 s/min +0\.05 \(0\.14\) MiB +0\.0046 s/min\n`),
		ContainSubstring("Not measured: kubemark: operation not permitted\n"),
	))
}

// Claim: `make bench-scale ROWS=nodes,kwok-machines` shows what nodes of each kind take, and whether thousands of kwok keep their heartbeats. Broken: new.
func TestNodesOfEachKindHaveLines(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	report := scaleReport{Modes: []scaleFigures{{
		Mode:         "shared",
		Nodes:        []nodeFigures{{Kind: "Realistic with a port", AtRest: cost{AnonymousMiB: 1.5, PrivateMiB: 1.6, CPUSecondsPerMinute: 0.02}, WithPods: cost{AnonymousMiB: 2.5, PrivateMiB: 2.6, CPUSecondsPerMinute: 0.03}}},
		KwokMachines: &kwokMachineFigures{Machines: 10000, Seconds: 300, LateHeartbeats: 3, NotReady: 1},
	}}}
	g.Expect(report.printTable(scaleOptionsFor(func(o *scaleOptions) {
		o.out, o.rows, o.kwokMachines = out, []string{rowNodes, rowKwokMachines}, 10000
	}))).To(Succeed())
	g.Expect(out.String()).To(And(
		MatchRegexp(`node, Fast: memory \(private\) +-\n`),
		MatchRegexp(`node, Realistic with a port: memory \(private\) +1\.5 \(1\.6\) MiB\n`),
		MatchRegexp(`node, Realistic with a port, with 10 pods: CPU +0\.03 s/min\n`),
		MatchRegexp(`10000 Machines of kwok: from 1 to all Ready +300 s\n`),
		MatchRegexp(`10000 Machines of kwok: heartbeats late, Nodes not Ready +3, 1\n`),
	))
}

func TestRowsAndModesAreChosen(t *testing.T) {
	g := NewWithT(t)
	rowsOf := func(change func(*scaleOptions)) (rows []string) {
		opts := scaleOptionsFor(change)
		for _, row := range scaleRows {
			if opts.hasRow(row) {
				rows = append(rows, row)
			}
		}
		return rows
	}
	g.Expect(rowsOf(func(*scaleOptions) {})).To(Equal([]string{rowPlane, rowFleet, rowScale, rowLoad, rowSets}), "peers need their programs")
	g.Expect(rowsOf(func(o *scaleOptions) { o.kwok, o.kubemark = "/kwok", "/kubemark" })).To(Equal(slices.Concat(scaleRows[:5], []string{rowKwok, rowKubemark})))
	g.Expect(rowsOf(func(o *scaleOptions) { o.rows = []string{rowNodes, rowKwokMachines} })).To(Equal([]string{rowNodes, rowKwokMachines}), "only if named")
	g.Expect(rowsOf(func(o *scaleOptions) { o.rows, o.kwok = []string{rowPlane}, "/kwok" })).To(Equal([]string{rowPlane}))
	out := &bytes.Buffer{}
	g.Expect(scaleReport{Modes: []scaleFigures{{Mode: "shared"}}}.printTable(scaleOptionsFor(func(o *scaleOptions) { o.out, o.rows = out, []string{rowLoad} }))).To(Succeed())
	g.Expect(out.String()).To(And(ContainSubstring("processors busy"), Not(ContainSubstring("control plane")), Not(ContainSubstring("other simulators"))))
}

func TestScaleRefusesWhatItCannotMeasure(t *testing.T) {
	for says, change := range map[string]func(*scaleOptions){
		"--clusters":                      func(o *scaleOptions) { o.clusters = 0 },
		"--kwok-nodes":                    func(o *scaleOptions) { o.kwokNodes = 0 },
		"--kwok-machines":                 func(o *scaleOptions) { o.kwokMachines = 0 },
		"--scale-to: want 2 or more":      func(o *scaleOptions) { o.scaleTo = []int{200, 1} },
		"--output":                        func(o *scaleOptions) { o.output = "xml" },
		"--modes: want some of processes": func(o *scaleOptions) { o.modes = []string{"fast"} },
		"--rows: want some of plane":      func(o *scaleOptions) { o.rows = []string{"planes"} },
		"--rows: kwok needs":              func(o *scaleOptions) { o.rows = []string{rowKwok} },
		"--rows: kubemark needs":          func(o *scaleOptions) { o.rows = []string{rowKubemark} },
		"--pods":                          func(o *scaleOptions) { o.load.pods = 3 },
	} {
		NewWithT(t).Expect(runScale(t.Context(), scaleOptionsFor(change))).To(MatchError(ContainSubstring(says)))
	}
}

func TestAProgramThatIsNoPeerIsRefused(t *testing.T) {
	g := NewWithT(t)
	opts := scaleOptionsFor(func(o *scaleOptions) { o.kwok = os.Args[0] })
	g.Expect(listPeers(opts)[0].measureOrSayWhy(t.Context(), opts.options).NotMeasured).To(ContainSubstring("has no module sigs.k8s.io/kwok: is it kwok?"))
	opts.kwok = filepath.Join(t.TempDir(), "kwok")
	g.Expect(listPeers(opts)[0].measureOrSayWhy(t.Context(), opts.options).NotMeasured).To(ContainSubstring("reading the version of kwok"))
}

func TestHollowNodesOfALoadTestReportAsTheModeSays(t *testing.T) {
	g := NewWithT(t)
	for _, mode := range scaleModes {
		raw, err := options{profile: "Realistic", programs: mode.programs}.nodeConfig()
		g.Expect(err).NotTo(HaveOccurred())
		config := v1alpha1.HollowNodeConfig{}
		g.Expect(json.Unmarshal(raw, &config)).To(Succeed())
		g.Expect(config.Profile).To(BeEquivalentTo("Realistic"))
		g.Expect(config.PodResources).NotTo(BeEmpty())
		g.Expect(config.Kubelet != nil).To(Equal(mode.name == "shared-slow"), mode.name)
		raw, err = options{profile: "Fast", programs: mode.programs, serves: true}.nodeConfig()
		g.Expect(err).NotTo(HaveOccurred())
		serves := v1alpha1.HollowNodeConfig{}
		g.Expect(json.Unmarshal(raw, &serves)).To(Succeed())
		g.Expect(serves.Kubelet.EnableServer).To(HaveValue(BeTrue()))
		g.Expect(serves.Kubelet.NodeLeaseDurationSeconds != nil).To(Equal(mode.name == "shared-slow"), mode.name)
	}
}

// A small fleet is measured in the densest mode.
func TestScaleMeasuresAFleet(t *testing.T) {
	testenv.Long(t)
	g := NewWithT(t)
	bin, err := testenv.BinDir()
	g.Expect(err).NotTo(HaveOccurred())
	t.Setenv("TMPDIR", t.TempDir())
	out, progress := &bytes.Buffer{}, &bytes.Buffer{}
	g.Expect(runScale(t.Context(), scaleOptionsFor(func(o *scaleOptions) {
		o.clusters, o.machines, o.rest, o.timeout, o.output, o.binDir, o.out, o.progress = 2, 2, 5*time.Second, 8*time.Minute, "json", bin, out, progress
		o.rows, o.modes = []string{rowPlane, rowFleet}, []string{"shared-slow"}
	}))).To(Succeed(), progress.String)
	report := scaleReport{}
	g.Expect(json.Unmarshal(out.Bytes(), &report)).To(Succeed())
	g.Expect(report.Modes).To(HaveLen(1))
	seen := report.Modes[0]
	g.Expect(seen.NotMeasured).To(BeEmpty())
	g.Expect(seen.UpSeconds).To(BeNumerically(">", 0))
	g.Expect(seen.Plane.AnonymousMiB).To(BeNumerically("~", 150, 130))
	g.Expect(seen.Fleet.AnonymousMiB).To(BeNumerically(">", 2*seen.PlaneWithNodes.AnonymousMiB+4*seen.Node.AnonymousMiB))
	g.Expect(testenv.ProcessesUnder(os.Getenv("TMPDIR"))).To(BeEmpty())
}

func TestOutagesThatOverlapAreCounted(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	for name, c := range map[string]struct {
		outages []outage
		limit   int
		most    int
		above   time.Duration
	}{
		"none":                           {nil, 1, 0, 0},
		"one after the other":            {[]outage{{"a", at(0), at(5)}, {"b", at(5), at(9)}}, 1, 1, 0},
		"a late answer":                  {[]outage{{"a", at(0), at(6)}, {"b", at(5), at(9)}}, 1, 2, time.Second},
		"three where two are allowed":    {[]outage{{"a", at(0), at(9)}, {"b", at(1), at(7)}, {"c", at(3), at(8)}}, 2, 3, 4 * time.Second},
		"the same server away two times": {[]outage{{"a", at(0), at(2)}, {"a", at(4), at(6)}}, 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if most, above := countOverlaps(c.outages, c.limit); most != c.most || above != c.above {
				t.Fatalf("%d at once, %s above the limit; want %d, %s", most, above, c.most, c.above)
			}
		})
	}
}
