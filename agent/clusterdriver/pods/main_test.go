package pods_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/clusterdrivertest"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// agent is the ServiceAccount of the host's agent.
const agent = "system:serviceaccount:hollowfleet:hollowfleet-agent"

var installOnce sync.Once

// asAgent is a configuration with the rights of the host's agent, and no others.
func asAgent(t *testing.T) *rest.Config {
	t.Helper()
	installOnce.Do(func() {
		for _, dir := range []string{"rbac/agent-workload", "rbac/agent-simulated-clusters"} {
			if err := config.Apply(t.Context(), testenv.Server().Client, config.RBAC, dir); err != nil {
				t.Fatal(err)
			}
		}
	})
	acting := rest.CopyConfig(testenv.Server().Config)
	acting.Impersonate = rest.ImpersonationConfig{UserName: agent, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:hollowfleet", "system:authenticated"}}
	return acting
}

func options(t *testing.T) pods.Options {
	t.Helper()
	return pods.Options{
		Config: asAgent(t), Gate: func(inner http.RoundTripper) http.RoundTripper { return inner }, Clock: clock.RealClock{}, MaxClusters: 100, Certificates: pods.PKISelfSigned,
		Settings: rendering.Settings{
			Host: shortName("host"), AgentNamespace: "hollowfleet", AgentAccount: "hollowfleet-agent",
			SimclusterImage: "hollowfleet/simcluster:v1", AgentImage: "hollowfleet/agent:v1", HollowNodeImage: "hollowfleet/hollow-node:v1",
			StorageSize: resource.MustParse("1Gi"), FreezeAfter: 30 * time.Second, CertificateLifetime: time.Hour,
		},
	}
}

var counted struct {
	sync.Mutex
	number int
}

// shortName is one that no other test has.
func shortName(prefix string) string {
	counted.Lock()
	defer counted.Unlock()
	counted.number++
	return fmt.Sprintf("%s-%d", prefix, counted.number)
}

func newDriver(t *testing.T, change ...func(*pods.Options)) *pods.Driver {
	t.Helper()
	with := options(t)
	for _, each := range change {
		each(&with)
	}
	driver, err := pods.New(with)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return driver
}

// newDesired is a cluster that can be asked for.
func newDesired(t *testing.T) clusterdriver.Desired {
	t.Helper()
	name := shortName("test")
	return clusterdriver.Desired{
		Name: name, UID: "0b0bd3f0-0000-4000-8000-" + name, ControlPlaneVersion: "v1.36", Hub: clusterdriver.HubAccess{Server: "https://hub.example.com:6444"},
		Credential: clusterdrivertest.Credential(t, name, time.Now().Add(time.Hour)),
	}
}

// Claim: The chart's rights suffice to make, upgrade in place, check and remove simulated clusters. Broken: a right left out; a volume missing; the version in the pod's template.
func TestConformance(t *testing.T) {
	testenv.Long(t)
	kubelet := startKubelet(t)
	clusterdrivertest.Run(t, func(t *testing.T) clusterdrivertest.Subject {
		driver := newDriver(t, func(o *pods.Options) { o.Dial = kubelet.Dial })
		return clusterdrivertest.Subject{Driver: driver, Version: "v1.35", Other: "v1.36", Later: "v1.37", Unsupported: "v1.20", Timeout: 4 * time.Minute}
	})
	kubelet.mu.Lock()
	defer kubelet.mu.Unlock()
	for uid, starts := range kubelet.starts {
		NewWithT(t).Expect(starts).To(Equal(1), "the control plane of SimulatedCluster %s was started again", uid)
	}
}
