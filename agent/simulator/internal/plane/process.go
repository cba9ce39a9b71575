package plane

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/queuemetrics"
)

const (
	// labelName is the label that all goroutines of a component have: its cluster and its name.
	labelName = "component"
	// traceLabels is the setting of GODEBUG with which traces show the labels of goroutines.
	traceLabels = "tracebacklabels=1"
)

// processFlags are flags of components that mean their whole process. They are set once for all.
var processFlags = []string{"feature-gates", "emulated-version", "min-compatibility-version", "v", "vmodule", "logging-format", "log-flush-frequency"}

// featureGates are those of all components of the process. Levers that are feature gates go here.
var featureGates = []string{
	// The only API server has nobody to pass requests on to, and looking for one costs a write every ten seconds.
	"UnknownVersionInteroperabilityProxy=false",
	// It compares caches with etcd every few minutes, by listing all objects of both.
	"DetectCacheInconsistency=false",
	// It decodes the events of each resource in goroutines of its own, for many thousand writes a second.
	"ConcurrentWatchObjectDecode=false",
}

// shared is what the clusters of this process have in common.
type shared struct {
	mutex sync.Mutex
	minor string
	// runs are those that have not ended, by their labels.
	runs map[string]*Run
	// started counts the runs.
	started int
}

var process = &shared{runs: map[string]*Run{}}

// ErrSetup is wrapped when a process that runs planes should emulate another version.
var ErrSetup = errors.New("a process emulates one version of Kubernetes")

// Setup prepares this process for planes that emulate the Kubernetes minor, such as 1.36; empty means that of the code. It is
// called before the first start. A second call with the same minor does nothing.
func Setup(minor string) error {
	process.mutex.Lock()
	defer process.mutex.Unlock()
	if minor == "" {
		minor = Minor()
	}
	switch process.minor {
	case minor:
		return nil
	case "":
	default:
		return fmt.Errorf("%w: this one emulates %s", ErrSetup, process.minor)
	}
	registry := compatibility.DefaultComponentGlobalsRegistry
	_, _ = registry.ComponentGlobalsOrRegister(basecompatibility.DefaultKubeComponent, compatibility.DefaultBuildEffectiveVersion(), utilfeature.DefaultMutableFeatureGate)
	flags := pflag.NewFlagSet("process", pflag.ContinueOnError)
	registry.AddFlags(flags)
	args := []string{"--feature-gates=" + strings.Join(featureGates, ",")}
	if minor != Minor() {
		args = append(args, "--emulated-version="+minor)
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	if err := registry.Set(); err != nil {
		return fmt.Errorf("emulating Kubernetes %s: %w", minor, err)
	}
	if err := errors.Join(registry.Validate()...); err != nil {
		return fmt.Errorf("emulating Kubernetes %s: %w", minor, err)
	}
	if err := errors.Join(queuemetrics.TurnOff(), callMembersDirectly()); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := os.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+","+traceLabels, ",")); err != nil {
		return fmt.Errorf("labelling traces: %w", err)
	}
	klog.OsExit = exitComponent
	process.minor = minor
	return routeLogs()
}

// routeLogs lets what components say without a logger of their own go to their logs too.
func routeLogs() error {
	flags := flag.NewFlagSet("logs", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("routing logs: %w", err)
		}
	}
	klog.SetOutput(logRouter{})
	return nil
}

// logRouter writes to the log of the component whose goroutine calls it.
type logRouter struct{}

func (logRouter) Write(content []byte) (int, error) {
	if run := process.findRun(ownLabel()); run != nil {
		return run.component.Log.Write(content)
	}
	return os.Stderr.Write(content)
}

// findRun returns the run with the label, if it has not ended.
func (s *shared) findRun(label string) *Run {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.runs[label]
}

// Minor is the Kubernetes minor of the code, such as 1.37.
func Minor() string {
	binary := compatibility.DefaultBuildEffectiveVersion().BinaryVersion()
	return fmt.Sprintf("%d.%d", binary.Major(), binary.Minor())
}

func (s *shared) check() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.minor == "" {
		return errors.New("the process was not set up for planes")
	}
	return nil
}

func (s *shared) register(run *Run) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.started++
	run.label = fmt.Sprintf("%s#%d", run.id(), s.started)
	s.runs[run.label] = run
}

func (s *shared) forget(run *Run) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.runs, run.label)
}

// exitComponent replaces the end of the process by the end of the component whose goroutine calls it. Kubernetes exits also where only
// one server is meant: a hook of an API server that is stopped while it starts fails, some half a minute later. A goroutine of no
// component ends the process.
func exitComponent(code int) {
	caller := ownLabel()
	if caller == "" {
		os.Exit(code)
	}
	if run := process.findRun(caller); run != nil {
		run.exitRun(fmt.Sprintf("code %d", code))
	}
	fmt.Fprintf(os.Stderr, "%s has ended, and wanted to exit the process with code %d\n", caller, code)
	runtime.Goexit()
}

// label is how the header of a goroutine's trace shows the label.
var label = regexp.MustCompile(`"?` + labelName + `"?: ?"?([^",}]+)"?`)

// ownLabel is the label of the goroutine that calls it.
func ownLabel() string {
	buffer := make([]byte, 4<<10)
	header, _, _ := bufio.NewReader(bytes.NewReader(buffer[:runtime.Stack(buffer, false)])).ReadLine()
	if found := label.FindSubmatch(header); found != nil {
		return string(found[1])
	}
	return ""
}

// FailedComponent returns the component that a panic in the log was in, as CLUSTER/NAME, or nothing. The trace of the goroutine that
// has panicked comes first.
func FailedComponent(log string) string {
	for _, start := range []string{"panic: ", "fatal error: "} {
		if _, trace, ok := strings.Cut(log, start); ok {
			if found := label.FindStringSubmatch(trace); found != nil {
				component, _, _ := strings.Cut(found[1], "#")
				return component
			}
		}
	}
	return ""
}

// dropProcessFlags removes the flags that are set once for the process.
func dropProcessFlags(args []string) []string {
	var kept []string
	for _, arg := range args {
		if !IsProcessFlag(arg) {
			kept = append(kept, arg)
		}
	}
	return kept
}

// IsProcessFlag reports whether a flag of a component is one of its whole process.
func IsProcessFlag(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	for _, flag := range processFlags {
		if name == flag {
			return true
		}
	}
	return false
}
