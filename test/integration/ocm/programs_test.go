package ocm

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// programs names, in the environment, the directory that hack/ocm.sh fills. Its programs take too long to build for every
// run, so without it the specs that need them are skipped.
const programs = "HOLLOWFLEET_OCM"

// stopGrace is how long a program may take to end.
const stopGrace = 30 * time.Second

// withPrograms skips a container without Open Cluster Management's programs, and installs its other kinds.
func withPrograms(ctx context.Context) {
	GinkgoHelper()
	if os.Getenv(programs) == "" {
		Skip("$" + programs + " names no directory with Open Cluster Management's programs: run make test-ocm")
	}
	for _, dir := range []string{"cluster/v1beta2", "cluster/v1beta1", "cluster/v1alpha1", "work/v1", "addon/v1beta1"} {
		kinds := testenv.Kinds{Module: testenv.ManagedClusters.Module, Dir: dir}
		Expect(kinds.Install(ctx, environment.Client)).To(Succeed())
	}
}

// startController starts the controller of one of Open Cluster Management's programs. It ends with the spec or container
// that started it.
func startController(program string) {
	GinkgoHelper()
	// The program refuses port 0.
	address, err := testenv.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	start(process.Spec{
		Name: program, Path: filepath.Join(os.Getenv(programs), program),
		Args: []string{"controller", "--kubeconfig", environment.Cluster.AdminKubeconfig(), "--namespace", "default",
			"--disable-leader-election", "--listen", address},
	})
}

// start starts a program, which ends with the spec or container that started it.
func start(spec process.Spec) *process.Process {
	GinkgoHelper()
	spec.LogFile = filepath.Join(GinkgoT().TempDir(), "program.log")
	started, err := process.Start(spec)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(started.Signal(resume)).To(Succeed())
		Expect(started.Stop(stopGrace)).To(Succeed())
		GinkgoWriter.Printf("the end of the log of %s:\n%s\n", spec.Name, process.Tail(spec.LogFile, 200))
	})
	return started
}

// startAgent starts a real agent of a cluster, whose workload cluster is the hub's own.
func startAgent(ctx context.Context, cluster string) *process.Process {
	GinkgoHelper()
	binary, err := testenv.Binary("agent")
	Expect(err).NotTo(HaveOccurred())
	hubKubeconfig, err := environment.Cluster.Kubeconfig(ctx, agentUser(cluster), agentGroup(cluster))
	Expect(err).NotTo(HaveOccurred())
	target, err := environment.Cluster.Kubeconfig(ctx, "hollowfleet-agent", "hollowfleet:agents")
	Expect(err).NotTo(HaveOccurred())
	return start(process.Spec{Name: "agent of " + cluster, Path: binary, Args: []string{
		"--cluster-name", cluster, "--hub-kubeconfig", hubKubeconfig, "--target-kubeconfig", target,
		"--health-address", "127.0.0.1:0", "--metrics-address", "0",
	}})
}
