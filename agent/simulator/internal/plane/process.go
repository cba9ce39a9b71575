package plane

import (
	"bufio"
	"bytes"
	"errors"
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
	// There is no other API server to pass requests on to, and looking for one costs a write every ten seconds.
	"UnknownVersionInteroperabilityProxy=false",
}

// shared is what the clusters of this process have in common.
type shared struct {
	mutex sync.Mutex
	minor string
	runs  map[string]*Run
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
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := os.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+","+traceLabels, ",")); err != nil {
		return fmt.Errorf("labelling traces: %w", err)
	}
	klog.OsExit = exitComponent
	process.minor = minor
	return nil
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
	s.runs[run.id()] = run
}

func (s *shared) forget(run *Run) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.runs[run.id()] == run {
		delete(s.runs, run.id())
	}
}

// exitComponent replaces the end of the process by the end of the component whose goroutine calls it. Kubernetes exits also where only
// one server is meant: a hook of an API server that is stopped while it starts fails, for instance. A goroutine of no component ends
// the process.
func exitComponent(code int) {
	process.mutex.Lock()
	run := process.runs[ownLabel()]
	process.mutex.Unlock()
	if run == nil {
		os.Exit(code)
	}
	fmt.Fprintf(os.Stderr, "%s wanted to exit the process with code %d: it ends alone\n", run.id(), code)
	run.failRun(code)
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

// dropProcessFlags removes the flags that are set once for the process.
func dropProcessFlags(args []string) []string {
	var kept []string
	for _, arg := range args {
		if !isProcessFlag(arg) {
			kept = append(kept, arg)
		}
	}
	return kept
}

func isProcessFlag(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	for _, flag := range processFlags {
		if name == flag {
			return true
		}
	}
	return false
}
