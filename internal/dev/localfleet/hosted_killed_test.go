package localfleet_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// keeperVariable has the directory of the fleet that this program is to keep, instead of running tests.
const keeperVariable = "HOLLOWFLEET_TEST_KEEPS"

func TestMain(m *testing.M) {
	dir := os.Getenv(keeperVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := keep(dir); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
	}
	os.Exit(1)
}

func keep(dir string) error {
	bin, err := testenv.BinDir()
	if err != nil {
		return err
	}
	programs := localfleet.Programs{BinDir: bin, Isolation: localfleet.IsolationShared}
	fleet, err := localfleet.Up(context.Background(), localfleet.Options{Dir: dir, Kept: true, Programs: programs})
	if err != nil {
		return err
	}
	fleet.Keep(context.Background())
	return nil
}

// Claim: What the keeper has taken is in fleet.json before it starts, so that the fleet's end removes it. Broken: recorded after the start.
func TestAKeeperThatIsKilledLeavesNothingUnrecorded(t *testing.T) {
	testenv.Long(t)
	options := keptOptions(t)
	program, err := os.Executable()
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	keeper := exec.Command(program)
	keeper.Env = append(os.Environ(), keeperVariable+"="+options.Dir)
	keeper.Stderr = os.Stderr
	g.Expect(keeper.Start()).To(Succeed())
	t.Cleanup(func() { _ = keeper.Process.Kill() })
	g.Eventually(func() (bool, error) {
		state, err := localfleet.ReadState(options.Dir)
		return state.Ready, err
	}, livePatience, glance).Should(BeTrue())
	hub, err := process.FindCluster(t.Context(), process.ClusterOptions{
		Name: "hub", Dir: filepath.Join(options.Dir, "hub"), Binary: filepath.Join(options.BinDir, "simcluster"), KubeconfigDir: t.TempDir(),
	})
	g.Expect(err).NotTo(HaveOccurred())
	k := &kept{T: t, WithT: g, dir: options.Dir, hub: hub, keeper: localclusters.NewClient(filepath.Join(options.Dir, localclusters.SocketName))}
	desired := k.desired("s1", "a", minor)
	g.Expect(k.keeper.Ensure(t.Context(), "s1", desired)).To(Succeed())
	g.Expect(keeper.Process.Kill()).To(Succeed())
	_ = keeper.Wait()
	state, err := localfleet.ReadState(options.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.Hosted).To(ConsistOf(localfleet.HostedCluster{Name: "s1", UID: "a", ControlPlaneVersion: minor, Group: "h1"}))
	g.Expect(os.ReadFile(filepath.Join(options.Dir, "agents", "s1", "credential", "tls.key"))).To(Equal(desired.Key))
	left, err := localfleet.Down(t.Context(), options.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(BeEmpty())
	g.Expect(options.Dir).NotTo(BeADirectory())
	g.Eventually(func() []string { return testenv.ProcessesUnder(options.Dir) }, livePatience, glance).Should(BeEmpty())
}

// Claim: A SimulatedCluster becomes a whole cluster of the local fleet, and nothing is left of it when it is deleted. Broken: new.
func TestASimulatedClusterComesToLifeAndGoes(t *testing.T) {
	k := startKept(t, func(options *localfleet.Options) { options.Host = true })
	k.Eventually(k.isTrue(&v1alpha1.Cluster{}, client.ObjectKey{Name: localfleet.HostName}, v1alpha1.ReadyCondition), livePatience, glance).Should(BeTrue())
	k.Eventually(k.isTrue(&v1alpha1.Cluster{}, client.ObjectKey{Name: localfleet.HostName}, v1alpha1.ClusterSimulatedClustersAllowedCondition), livePatience, glance).Should(BeTrue())

	simulated := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: localfleet.HostName, Name: "e1"}}
	simulated.Spec.Versions.ControlPlane = minor
	key := client.ObjectKeyFromObject(simulated)
	k.Expect(k.client.Create(t.Context(), simulated)).To(Succeed())
	k.Eventually(k.isTrue(simulated, key, v1alpha1.ReadyCondition), livePatience, glance).Should(BeTrue(), func() string { return fmt.Sprint(simulated.Status.Conditions) })
	k.Expect(simulated.Status.Versions).To(HaveValue(HaveField("ControlPlane", minor)))
	k.Eventually(k.isTrue(&v1alpha1.Cluster{}, client.ObjectKey{Name: "e1"}, v1alpha1.ReadyCondition), livePatience, glance).Should(BeTrue())
	k.Expect(k.phase("e1")()).To(Equal(localclusters.Running))

	k.Expect(k.client.Delete(t.Context(), simulated)).To(Succeed())
	k.Eventually(func() bool { return apierrors.IsNotFound(k.client.Get(t.Context(), key, simulated)) }, livePatience, glance).Should(BeTrue(), func() string { return fmt.Sprint(simulated.Status.Conditions) })
	k.Expect(k.keeper.Get(t.Context(), "e1")).To(BeNil())
	k.Expect(k.files("e1")).To(BeEmpty())
	k.Eventually(func() bool {
		return apierrors.IsNotFound(k.client.Get(t.Context(), client.ObjectKey{Name: "e1"}, &v1alpha1.Cluster{}))
	}, livePatience, glance).Should(BeTrue())
}

// isTrue reads an object, and reports whether it has a condition.
func (k *kept) isTrue(object client.Object, key client.ObjectKey, condition string) func() (bool, error) {
	return func() (bool, error) {
		err := k.client.Get(k.Context(), key, object)
		switch object := object.(type) {
		case *v1alpha1.Cluster:
			return meta.IsStatusConditionTrue(object.Status.Conditions, condition), err
		case *v1alpha1.SimulatedCluster:
			return meta.IsStatusConditionTrue(object.Status.Conditions, condition), err
		}
		return false, err
	}
}
