package fleettest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Long marks a spec that "make test", which runs go test with -short, leaves to "make test-long".
var Long = Label("long")

// Run runs the specs of a package, those marked Long only without -short. With HOLLOWFLEET_SPEC_TIMES set to a
// directory, it writes a file there with the seconds that each spec took.
func Run(t *testing.T, name string) {
	t.Helper()
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(Patience)
	SetDefaultEventuallyPollingInterval(Glance)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if testing.Short() && suite.LabelFilter == "" {
		suite.LabelFilter = "!long"
	}
	if dir := os.Getenv("HOLLOWFLEET_SPEC_TIMES"); dir != "" {
		ReportAfterSuite("spec times", func(report Report) {
			Expect(writeTimes(filepath.Join(dir, filepath.Base(report.SuitePath)+".tsv"), name, report)).To(Succeed())
		})
	}
	RunSpecs(t, name, suite, reporter)
}

func writeTimes(file, suite string, report Report) error {
	var lines strings.Builder
	for _, spec := range report.SpecReports {
		if spec.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
			continue
		}
		text := spec.FullText()
		if text == "" {
			text = spec.LeafNodeType.String()
		}
		fmt.Fprintf(&lines, "%.1f\t%s: %s\n", spec.RunTime.Seconds(), suite, text)
	}
	return os.WriteFile(file, []byte(lines.String()), 0o644)
}
