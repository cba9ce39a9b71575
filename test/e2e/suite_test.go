package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	root = "../.."
	// A laptop with two cores that runs three clusters takes its time.
	patience = 3 * time.Minute

	hubNamespace   = "hollowfleet-system"
	agentNamespace = "hollowfleet"
)

var (
	hub, c1, c2 *kindCluster
	// work is where the user of docs/install.md is: a checkout, with the kubeconfigs of the workload clusters.
	work string
)

func TestE2E(t *testing.T) {
	if os.Getenv("HOLLOWFLEET_KIND_IMAGE") == "" {
		t.Skip("make e2e runs this: it needs a container engine, an image of a kind node, and the images of Hollowfleet")
	}
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	RunSpecs(t, "Hollowfleet on kind")
}

// output is where the logs of a failed run go.
func output() string { return os.Getenv("HOLLOWFLEET_E2E_OUTPUT") }

var _ = BeforeSuite(func() {
	var err error
	work, err = os.MkdirTemp(output(), "work-")
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"bin", "charts", "config"} {
		target, err := filepath.Abs(filepath.Join(root, name))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Symlink(target, filepath.Join(work, name))).To(Succeed())
	}
	started := time.Now()
	clusters, err := createClusters(os.Getenv("HOLLOWFLEET_KIND_IMAGE"), work, map[string]int{"hub": 0, "c1": 0, "c2": 1})
	if err != nil && clusters != nil {
		collect(clusters)
	}
	Expect(err).NotTo(HaveOccurred())
	hub, c1, c2 = clusters["hub"], clusters["c1"], clusters["c2"]
	figure("three kind clusters at once, until their nodes are Ready", seconds(started))
})

var _ = ReportAfterSuite("figures and logs", func(report Report) {
	printFigures()
	clusters := map[string]*kindCluster{"hub": hub, "c1": c1, "c2": c2}
	if !report.SuiteSucceeded {
		collect(clusters)
	}
	if os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0" {
		fmt.Printf("The kind clusters stay: their kubeconfigs are in %s.\n", work)
		return
	}
	for _, one := range clusters {
		if one != nil {
			Expect(one.delete()).To(Succeed())
		}
	}
	Expect(os.RemoveAll(work)).To(Succeed())
})

// run runs commands of a user in a shell that stands in a checkout and talks to the hub. What they print is shown.
func run(ctx context.Context, script string) string {
	GinkgoHelper()
	return shellIn(ctx, hub.kubeconfig, script)
}

// readme runs the commands of a block of docs/install.md, with other names where they are needed.
func readme(ctx context.Context, number int, pairs ...string) string {
	GinkgoHelper()
	all, err := blocks(filepath.Join(root, "docs/install.md"), "## Install")
	Expect(err).NotTo(HaveOccurred())
	Expect(len(all)).To(BeNumerically(">", number), "docs/install.md has too few blocks of commands")
	script, err := all[number].with(pairs...)
	Expect(err).NotTo(HaveOccurred())
	return run(ctx, script)
}

// operations runs the first commands below a heading of docs/operations.md, with other names where they are needed.
func operations(ctx context.Context, heading string, pairs ...string) string {
	GinkgoHelper()
	all, err := blocks(filepath.Join(root, "docs/operations.md"), heading)
	Expect(err).NotTo(HaveOccurred())
	Expect(all).NotTo(BeEmpty(), "no commands below %s", heading)
	script, err := all[0].with(pairs...)
	Expect(err).NotTo(HaveOccurred())
	return run(ctx, script)
}

func seconds(since time.Time) string { return fmt.Sprintf("%.1f s", time.Since(since).Seconds()) }

var figures []string

// figure keeps a measured value for the end of the run.
func figure(name string, value any) {
	figures = append(figures, fmt.Sprintf("%-72s %v", name, value))
	AddReportEntry(name, fmt.Sprint(value))
}

func printFigures() {
	fmt.Printf("\n== measured\n%s\n", strings.Join(figures, "\n"))
}
