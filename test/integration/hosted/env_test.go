package hosted

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	// older and newer are versions of control planes.
	older, newer = "v1.36", "v1.37"
	// The names of processes of the fleet.
	hubProcess  = "hub"
	hostProcess = "agent " + localfleet.HostName
)

// localFleet is one that kubectl hollow local keeps.
type localFleet struct {
	// bin has the programs.
	bin, temp, dir string
	config         *rest.Config
	hub            client.WithWatch
}

// startFleet starts a fleet without clusters, which ends after the spec or suite.
func startFleet(ctx context.Context, bin string) *localFleet {
	GinkgoHelper()
	temp, err := os.MkdirTemp("", "hosted-") // The path of a socket must be short.
	Expect(err).NotTo(HaveOccurred())
	f := &localFleet{bin: bin, temp: temp, dir: filepath.Join(temp, "fleet")}
	DeferCleanup(func(ctx SpecContext) {
		f.expectHollow(ctx, "local", "down", "--dir", f.dir)
		Expect(f.dir).NotTo(BeADirectory(), "files left behind")
		Eventually(func() []string { return testenv.ProcessesUnder(temp) }).Should(BeEmpty(), "processes left behind")
		Expect(os.RemoveAll(temp)).To(Succeed())
	}, NodeTimeout(fleettest.Patience))
	f.expectHollow(ctx, "local", "up", "--dir", f.dir, "--clusters", "0", "--machines", "0", "--isolation", "shared", "--while-pid", strconv.Itoa(os.Getpid()), "--bin-dir", bin)
	report, err := localfleet.ReadReport(f.dir)
	Expect(err).NotTo(HaveOccurred())
	f.config, err = clientcmd.BuildConfigFromFlags("", report.Hub.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	f.config.QPS = -1
	f.hub, err = client.NewWithWatch(f.config, client.Options{Scheme: scheme.New()})
	Expect(err).NotTo(HaveOccurred())
	return f
}

// expectHollow runs kubectl-hollow, which has to succeed.
func (f *localFleet) expectHollow(ctx context.Context, args ...string) {
	GinkgoHelper()
	f.expectProgram(ctx, "kubectl-hollow", args...)
}

// expectProgram runs a program of the fleet, which has to succeed.
func (f *localFleet) expectProgram(ctx context.Context, program string, args ...string) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, filepath.Join(f.bin, program), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(f.dir, "hub", "kubeconfigs", "admin.conf"))
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s %q: %s", program, args, output)
}

// pidOf is the process of that name that runs now; 0 if none does.
func (f *localFleet) pidOf(name string) int {
	state, err := localfleet.ReadState(f.dir)
	if err != nil {
		return 0
	}
	if name == localfleet.KeeperName && state.Keeper != nil && state.Keeper.Alive() {
		return state.Keeper.PID
	}
	for _, one := range state.Processes {
		if one.Name == name && one.Alive() {
			return one.PID
		}
	}
	return 0
}

// kill kills a process of the fleet. The keeper starts it again; if it is the keeper, all ends with it, and the fleet is started again.
func (f *localFleet) kill(ctx context.Context, name string) {
	GinkgoHelper()
	pid := 0
	Eventually(ctx, func() int { pid = f.pidOf(name); return pid }).ShouldNot(BeZero(), "%s runs", name)
	Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
	if name != localfleet.KeeperName {
		return
	}
	f.awaitEnd(ctx)
	f.expectHollow(ctx, "local", "up", "--dir", f.dir)
}

// awaitEnd waits until nothing of the fleet runs: the programs end with the keeper.
func (f *localFleet) awaitEnd(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func() []string { return testenv.ProcessesUnder(f.temp) }).Should(BeEmpty())
}

// createSet makes a set whose clusters start with so many Machines, and which is removed after the spec.
func (f *localFleet) createSet(ctx context.Context, name string, replicas, machines int32) *v1alpha1.SimulatedClusterSet {
	GinkgoHelper()
	set := &v1alpha1.SimulatedClusterSet{}
	set.Name, set.Spec.Replicas = name, ptr.To(replicas)
	set.Spec.Template.Spec.Versions.ControlPlane = older
	if machines > 0 {
		workers, err := localfleet.InitialWorkers(machines, older+".0", localfleet.HeartbeatsNormal)
		Expect(err).NotTo(HaveOccurred())
		set.Spec.Template.Spec.MachineDeployments = []v1alpha1.InitialMachineDeployment{workers}
	}
	Expect(f.hub.Create(ctx, set)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Eventually(ctx, func() error { return client.IgnoreNotFound(f.hub.Delete(ctx, set)) }).Should(Succeed())
		Eventually(ctx, func(g Gomega) {
			list := &v1alpha1.SimulatedClusterList{}
			g.Expect(f.hub.List(ctx, list)).To(Succeed())
			g.Expect(namesIn(list)).To(BeEmpty())
		}).Should(Succeed())
	}, NodeTimeout(fleettest.Patience))
	return set
}

// scale changes the number of replicas.
func (f *localFleet) scale(ctx context.Context, set *v1alpha1.SimulatedClusterSet, replicas int32) {
	GinkgoHelper()
	f.patch(ctx, set, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func (f *localFleet) patch(ctx context.Context, object client.Object, patch string) {
	GinkgoHelper()
	Expect(f.hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// expectReady waits until the set has so many clusters, all of them Ready and with its version.
func (f *localFleet) expectReady(ctx context.Context, set *v1alpha1.SimulatedClusterSet, replicas int32) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(f.hub.Get(ctx, client.ObjectKeyFromObject(set), set)).To(Succeed())
		g.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation))
		g.Expect(set.Status).To(And(HaveField("Replicas", replicas), HaveField("ReadyReplicas", replicas), HaveField("UpdatedReplicas", replicas)), "%+v", set.Status.Conditions)
	}).Should(Succeed())
}

// namesOf are those of a set's clusters with these ordinals.
func namesOf(set string, ordinals ...int) (names []string) {
	for _, ordinal := range ordinals {
		names = append(names, fmt.Sprintf("%s-%d", set, ordinal))
	}
	return names
}

// upTo are the ordinals from 0 on.
func upTo(count int) (ordinals []int) {
	for i := range count {
		ordinals = append(ordinals, i)
	}
	return ordinals
}
