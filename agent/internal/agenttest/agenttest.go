// Package agenttest gives the tests of the agent's packages a real API server, which plays hub, target and host.
package agenttest

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Wait bounds an Eventually against the API server. It is long, because a machine with much else to do is slow.
const Wait = 2 * time.Minute

var (
	once        sync.Once
	environment *testenv.Environment
	errStart    error
	// start is Share in packages that may share their control plane with others.
	start = func(ctx context.Context) (*testenv.Environment, error) { return testenv.Start(ctx) }
)

// Poll is how often an Eventually asks the API server. Gomega's default of 10 ms keeps it busy with nothing else.
const Poll = 100 * time.Millisecond

// Main is the body of a TestMain: it runs the tests and stops the control plane if one was started.
func Main(m *testing.M) {
	gomega.SetDefaultEventuallyPollingInterval(Poll)
	code := m.Run()
	if environment != nil {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// MainParallel is Main for a package that runs so many tests side by side, because they wait more than they work.
func MainParallel(m *testing.M, tests int) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	Main(m)
}

// MainShared is Main for a package that may share its control plane with others, see testenv.Share.
func MainShared(m *testing.M) {
	start = testenv.Share
	Main(m)
}

// Environment returns the package's control plane, which the first call starts.
func Environment(t *testing.T) *testenv.Environment {
	t.Helper()
	once.Do(func() {
		if environment, errStart = start(context.Background()); errStart != nil {
			return
		}
		for _, dir := range []string{"rbac/agent-hub", "rbac/agent-workload", "rbac/agent-load-tests"} {
			var files fs.FS = config.RBAC
			if errStart = config.Apply(context.Background(), environment.Client, files, dir); errStart != nil {
				return
			}
		}
	})
	if errStart != nil {
		t.Fatalf("starting a control plane: %v", errStart)
	}
	return environment
}

// Namespace makes a namespace of the test's own. It is not removed: the control plane goes as a whole.
func Namespace(t *testing.T, c client.Client) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if err := c.Create(context.Background(), namespace); err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	return namespace.Name
}

// Machine returns a Machine as a MachineSet would make it, with the agent's finalizer.
func Machine(namespace, name string) *v1alpha1.Machine {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Finalizers: []string{v1alpha1.MachineFinalizer},
	}}
	machine.Spec.ClusterName = namespace
	return machine
}
