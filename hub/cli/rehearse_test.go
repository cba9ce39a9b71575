package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const smallInventory = `apiVersion: rehearsal.hollowfleet.io/v1
kind: Inventory
controlPlane: v1.36.2
nodes:
- name: a
  kubelet: v1.36.1
  ready: true
  labels: {pool: blue}
  allocatable: {cpu: "4", memory: 16Gi, pods: "110"}
- name: b
  kubelet: v1.33.1
  ready: true
  labels: {pool: green}
  allocatable: {cpu: "4", memory: 16Gi, pods: "110"}
workloads:
- kind: Deployment
  namespace: shop
  name: web
  replicas: 2
  ready: 2
  selector: {matchLabels: {app: web}}
  pod: {labels: {app: web}, containers: [{requests: {cpu: 100m}}]}
podDisruptionBudgets:
- namespace: shop
  name: web
  selector: {matchLabels: {app: web}}
  minAvailable: 1
`

func writeInventory(t *testing.T, change ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	NewWithT(t).Expect(os.WriteFile(path, []byte(strings.NewReplacer(change...).Replace(smallInventory)), 0o600)).To(Succeed())
	return path
}

// Claim: A rehearsal that cannot be made is refused with field and remedy, and nothing is made. Broken: two minors at once accepted; the host not looked for before.
func TestARehearsalIsRefusedBeforeAnythingIsMade(t *testing.T) {
	f := newEnv(t)
	good := writeInventory(t)
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"":                                       {2, "give --from-kubeconfig or --from-inventory"},
		"--from-inventory x --from-kubeconfig y": {2, "use only one of them"},
		"--from-inventory x --from-context y":    {2, "--from-context"},
		"--from-inventory /no/such":              {1, "--from-inventory: open /no/such"},
		"--from-kubeconfig /no/such":             {1, "--from-kubeconfig: reading /no/such"},
		"--from-inventory GOOD --control-plane-version v1.38":                                 {2, "rehearse v1.37 first"},
		"--from-inventory GOOD --control-plane-version v1.35":                                 {2, "does not go back"},
		"--from-inventory GOOD --kubelet-version v1.38.0":                                     {2, "never ahead"},
		"--from-inventory GOOD --max-surge 0":                                                 {2, "both 0"},
		"--from-inventory GOOD --max-surge some":                                              {2, "--max-surge: want a number"},
		"--from-inventory GOOD --strategy InPlace --max-unavailable 0":                        {2, "1 or more"},
		"--from-inventory GOOD --termination-percent 101":                                     {2, "0 to 100"},
		"--from-inventory GOOD --dry-run -o html":                                             {2, "-o html"},
		"--from-inventory GOOD --host nope":                                                   {3, "--host: Cluster nope does not exist"},
		"--from-inventory " + writeInventory(t, "v1.36.2", "v1.33.2"):                         {4, "from v1.34 on"},
		"--from-inventory " + writeInventory(t, "kind: Deployment", "kind: X"):                {2, "workloads[0].kind"},
		"--from-inventory " + writeInventory(t, "ready: true", "ready: false") + " --dry-run": {4, "no Node of the inventory is Ready"},
	} {
		t.Run(args, func(t *testing.T) {
			inner := *f
			inner.T, inner.WithT = t, NewWithT(t)
			inner.fails(want.code, want.says, "rehearse "+strings.ReplaceAll(args, "GOOD", good))
		})
	}
	clusters := &v1alpha1.SimulatedClusterList{}
	f.Expect(f.Client.List(t.Context(), clusters)).To(Succeed())
	f.Expect(clusters.Items).To(BeEmpty())
}

// Claim: Without --host the only Cluster that can hosts a rehearsal. Broken: a Cluster whose agent runs none is taken.
func TestTheHostOfARehearsal(t *testing.T) {
	f := newEnv(t)
	file := writeInventory(t)
	f.stops(4, "no Cluster runs simulated clusters", "rehearse --from-inventory "+file)
	other := f.AcceptedCluster()
	f.stops(4, "--host: Cluster "+other.Name+" runs no simulated clusters", "rehearse --from-inventory "+file+" --host "+other.Name)
	var hosts []string
	for range 2 {
		host := f.AcceptedCluster()
		f.ExpectConditionApplied(host, v1alpha1.ClusterSimulatedClustersAllowedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
		hosts = append(hosts, host.Name)
		defer f.ExpectDeleted(host)
		if len(hosts) == 1 {
			f.stops(2, "--simulated-kubeconfig: the hub is not that of the local fleet", "rehearse --local-dir /nowhere --from-inventory "+file)
		}
	}
	f.stops(2, "name one of ", "rehearse --from-inventory "+file)
	f.stops(2, "--simulated-kubeconfig", "rehearse --local-dir /nowhere --from-inventory "+file+" --host "+hosts[1])
	r := f.hollow("rehearse --dry-run=server --simulated-kubeconfig x --from-inventory " + file + " --host " + hosts[1] + " --name " + testenv.Name())
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(ContainSubstring("SimulatedCluster " + hosts[1] + "/"))
	f.stops(4, "metadata.name", "rehearse --dry-run=server --simulated-kubeconfig x --from-inventory "+file+" --host "+hosts[1]+" --name kube-x")
}

func TestARehearsalIsShownBeforeItIsMade(t *testing.T) {
	f := newEnv(t)
	file, saved := writeInventory(t), filepath.Join(t.TempDir(), "saved.yaml")
	r := f.hollow("rehearse --dry-run --from-inventory " + file + " --hash-names --save-inventory " + saved)
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(And(MatchRegexp(`(?m)^blue +1 +v1\.36\.1`), ContainSubstring("1 workload with 2 replicas"), ContainSubstring("goes to v1.37, and kubelets to v1.37.0")))
	f.Expect(r.errOut).To(ContainSubstring("upgrade these Nodes to v1.36 before the control plane"))
	content, err := os.ReadFile(saved)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(string(content)).NotTo(ContainSubstring("shop"))
	f.Expect(f.succeeds("rehearse --dry-run --from-inventory " + saved)).To(ContainSubstring("1 workload with 2 replicas"))

	var list struct {
		Items []metav1.PartialObjectMetadata
	}
	f.Expect(yaml.Unmarshal([]byte(f.succeeds("rehearse --dry-run -o yaml --from-inventory "+file)), &list)).To(Succeed())
	var kinds []string
	for _, item := range list.Items {
		kinds = append(kinds, item.Kind+" "+item.Name)
	}
	f.Expect(kinds).To(ContainElements("MachineDeployment blue", "MachineDeployment green", "Namespace shop", "PodDisruptionBudget web", "Deployment web"))
	f.Expect(kinds[0]).To(HavePrefix("SimulatedCluster rehearsal-"))
}
