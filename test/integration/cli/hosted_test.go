package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func (p *person) hub() client.Client {
	p.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	p.Expect(err).NotTo(HaveOccurred())
	hub, err := client.New(config, client.Options{Scheme: scheme.New()})
	p.Expect(err).NotTo(HaveOccurred())
	return hub
}

// setAndFleet is a set with a label for its Clusters, and a fleet that chooses them by it.
const setAndFleet = `
apiVersion: hollowfleet.io/v1alpha1
kind: SimulatedClusterSet
metadata: {name: sim}
spec:
  replicas: 2
  hostSelector: {matchLabels: {hosts: simulated-clusters}}
  template: {spec: {metadata: {labels: {machines: few}}}}
---
apiVersion: hollowfleet.io/v1alpha1
kind: MachineFleet
metadata: {name: few}
spec:
  clusterSelector: {matchLabels: {machines: few}}
  template:
    spec:
      selector: {matchLabels: {pool: few}}
      template:
        metadata: {labels: {pool: few}}
        spec:
          providerConfig: {provider: hollow, value: {apiVersion: hollowfleet.io/v1alpha1, kind: HollowNodeConfig}}
`

// apply creates the objects of a manifest.
func (p *person) apply(hub client.Client, manifest string) {
	p.t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		p.Expect(err).NotTo(HaveOccurred())
		p.Expect(hub.Create(context.Background(), object)).To(Succeed())
	}
}

// set makes a SimulatedClusterSet of a fleet that has a host, and no cluster else.
func (p *person) set() (client.Client, *v1alpha1.SimulatedClusterSet) {
	p.t.Helper()
	p.up("--clusters", "0", "--machines", "0")
	hub := p.hub()
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "sim"}}
	set.Spec.Replicas = ptr.To[int32](0)
	p.Expect(hub.Create(context.Background(), set)).To(Succeed())
	return hub, set
}

func (p *person) scale(hub client.Client, set *v1alpha1.SimulatedClusterSet, replicas int32) {
	p.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+strconv.Itoa(int(replicas))+`}}`))
	p.Expect(hub.Patch(context.Background(), set, patch)).To(Succeed())
}

func (p *person) expectReplicas(hub client.Client, set *v1alpha1.SimulatedClusterSet, replicas int32) {
	p.t.Helper()
	p.Eventually(func(g Gomega) {
		g.Expect(hub.Get(context.Background(), client.ObjectKeyFromObject(set), set)).To(Succeed())
		g.Expect(set.Status).To(And(HaveField("Replicas", replicas), HaveField("ReadyReplicas", replicas)), "%+v", set.Status.Conditions)
	}, patience, time.Second).Should(Succeed())
}

// filesOf are those under the fleet's directory that have the name of a cluster, and processesOf the processes that do.
func (p *person) filesOf(cluster string) (found []string) {
	p.t.Helper()
	p.Expect(filepath.WalkDir(p.dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(path), cluster) {
			found = append(found, path)
		}
		return nil
	})).To(Succeed())
	return found
}

func (p *person) processesOf(cluster string) (found []string) {
	p.t.Helper()
	for _, line := range testenv.ProcessesUnder(p.temp) {
		if strings.Contains(line, cluster) {
			found = append(found, line)
		}
	}
	return found
}

// expectNothingOf holds that of a simulated cluster nothing is left: no object on the hub, no file and no process.
func (p *person) expectNothingOf(hub client.Client, name string) {
	p.t.Helper()
	for object, key := range map[client.Object]client.ObjectKey{
		&v1alpha1.SimulatedCluster{}: {Namespace: "host", Name: name}, &v1alpha1.Cluster{}: {Name: name}, &corev1.Namespace{}: {Name: name},
	} {
		p.Expect(apierrors.IsNotFound(hub.Get(context.Background(), key, object))).To(BeTrue(), "%T %s", object, key)
	}
	p.Expect(p.filesOf(name)).To(BeEmpty())
	p.Expect(p.processesOf(name)).To(BeEmpty())
}

// Claim: A SimulatedClusterSet makes whole clusters, which a MachineFleet chooses by the labels of the template, and leaves nothing of those that it takes away. Broken: each step of creation or removal left out; no labels.
func TestASimulatedClusterSet(t *testing.T) {
	p := newPerson(t)
	p.up("--clusters", "0", "--machines", "0")
	hub := p.hub()
	p.apply(hub, setAndFleet)
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "sim"}}
	p.expectReplicas(hub, set, 2)
	p.expectFleet(hub, 2)
	for _, name := range []string{"sim-0", "sim-1"} {
		one := &v1alpha1.SimulatedCluster{}
		p.Expect(hub.Get(context.Background(), client.ObjectKey{Namespace: "host", Name: name}, one)).To(Succeed())
		p.Expect(one.Status.Versions).To(HaveValue(HaveField("ControlPlane", HavePrefix("v1."))))
		p.Expect(p.filesOf(name)).NotTo(BeEmpty())
		p.Expect(p.processesOf(name)).NotTo(BeEmpty())
	}
	p.scale(hub, set, 1)
	p.expectReplicas(hub, set, 1)
	p.expectNothingOf(hub, "sim-1")
	p.expectFleet(hub, 1)
	p.Expect(p.filesOf("sim-0")).NotTo(BeEmpty())
	p.succeeds("local", "down", "--dir", p.dir)
	p.leavesNothing()
}

// expectFleet holds that the fleet is Ready in so many clusters, the simulated ones, with one Machine in each.
func (p *person) expectFleet(hub client.Client, clusters int) {
	p.t.Helper()
	p.Eventually(func(g Gomega) {
		fleet, machines := &v1alpha1.MachineFleet{}, &v1alpha1.MachineList{}
		g.Expect(hub.Get(context.Background(), client.ObjectKey{Name: "few"}, fleet)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(fleet.Status.Conditions, v1alpha1.ReadyCondition)).To(BeTrue(), "%+v", fleet.Status.Conditions)
		g.Expect(fleet.Status.Clusters).To(And(HaveField("Selected", BeEquivalentTo(clusters)), HaveField("Updated", BeEquivalentTo(clusters))))
		g.Expect(hub.List(context.Background(), machines)).To(Succeed())
		g.Expect(machines.Items).To(HaveLen(clusters))
		for i := range machines.Items {
			g.Expect(meta.IsStatusConditionTrue(machines.Items[i].Status.Conditions, v1alpha1.ReadyCondition)).To(BeTrue(), machines.Items[i].Namespace)
		}
	}, patience, time.Second).Should(Succeed())
}

// killHost kills the agent of the host as soon as reached, and lets the fleet start it again.
func (p *person) killHost(reached func(g Gomega)) {
	p.t.Helper()
	agent := p.pid("agent host")
	p.Eventually(reached, patience, 50*time.Millisecond).Should(Succeed())
	p.Expect(syscall.Kill(agent, syscall.SIGKILL)).To(Succeed())
}

// Claim: A host whose agent is killed or frozen ends what it has started. Broken: the key of a lost request is waited for; the driver is not gated.
func TestASimulatedClusterSetOfAHostThatIsKilledAndFrozen(t *testing.T) {
	testenv.Long(t)
	p := newPerson(t)
	hub, set := p.set()
	p.scale(hub, set, 1)
	p.killHost(func(g Gomega) { // The key of this request is lost.
		request := &certificatesv1.CertificateSigningRequest{}
		g.Expect(hub.Get(context.Background(), client.ObjectKey{Name: certrequest.NameOfHostedAgent("host", "sim-0")}, request)).To(Succeed())
	})
	p.expectReplicas(hub, set, 1)

	p.succeeds("freeze", "cluster", "host", "--reason", "test", "--timeout", patience.String())
	p.scale(hub, set, 0)
	p.Consistently(func() []string { return p.filesOf("sim-0") }, 5*time.Second, time.Second).ShouldNot(BeEmpty())
	p.succeeds("unfreeze", "cluster", "host", "--timeout", patience.String())
	p.killHost(func(g Gomega) {
		one := &v1alpha1.SimulatedCluster{}
		g.Expect(hub.Get(context.Background(), client.ObjectKey{Namespace: "host", Name: "sim-0"}, one)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(one.Status.Conditions, v1alpha1.MachinesRemovedCondition)).To(BeTrue())
	})
	p.expectReplicas(hub, set, 0)
	p.expectNothingOf(hub, "sim-0")
}

// machines are the Machines of a cluster's workers that are Ready; -1 if there are no workers.
func (p *person) machines(hub client.Client, cluster string) func() int32 {
	return func() int32 {
		workers := &v1alpha1.MachineDeployment{}
		if err := hub.Get(context.Background(), client.ObjectKey{Namespace: cluster, Name: localfleet.WorkersName}, workers); err != nil {
			return -1
		}
		return workers.Status.ReadyReplicas
	}
}

// Claim: `local up` makes its clusters by SimulatedClusterSet local, which scales with their Machines; what a user deletes stays deleted. Broken: each step of creation left out.
func TestALocalFleetOfASet(t *testing.T) {
	p := newPerson(t)
	report := p.up("--clusters", "2", "--machines", "1", "--isolation", "shared", "--kubelet-version", "v1.36.2")
	p.Expect(report.Clusters).To(HaveExactElements(
		And(HaveField("Name", "local-0"), HaveField("UID", Not(BeEmpty())), HaveField("Kubeconfig", BeAnExistingFile())), HaveField("Name", "local-1")))
	p.Eventually(func() string { return p.succeeds("cluster", "list") }, patience, time.Second).Should(And(MatchRegexp(`local-1 +Accepted +True +False +1/1 `), MatchRegexp(`host +Accepted +True `)))
	hub := p.hub()
	for name, stage := range map[string]string{"local-0": localfleet.StageCanary, "local-1": localfleet.StageProduction} {
		cluster := &v1alpha1.Cluster{}
		p.Expect(hub.Get(context.Background(), client.ObjectKey{Name: name}, cluster)).To(Succeed())
		p.Expect(cluster.Labels).To(HaveKeyWithValue(localfleet.StageLabel, stage))
		p.Expect(p.machines(hub, name)()).To(BeEquivalentTo(1))
	}
	workers := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "local-1", Name: localfleet.WorkersName}}
	p.Expect(hub.Delete(context.Background(), workers)).To(Succeed())
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: localfleet.SetName}}
	p.scale(hub, set, 3)
	p.expectReplicas(hub, set, 3)
	p.Eventually(p.machines(hub, "local-2"), patience, time.Second).Should(BeEquivalentTo(1), "a new cluster starts with its Machines")
	p.Expect(p.machines(hub, "local-1")()).To(BeEquivalentTo(-1), "it stays deleted")
	p.scale(hub, set, 1)
	p.expectReplicas(hub, set, 1)
	p.expectNothingOf(hub, "local-2")
	p.expectNothingOf(hub, "local-1")
	p.Expect(p.machines(hub, "local-0")()).To(BeEquivalentTo(1))

	p.killKeeper()
	p.Expect(p.succeeds("local", "up", "--dir", p.dir)).To(And(ContainSubstring("local-0: control plane ready"), MatchRegexp(`local-0 /\S+`)))
	hub = p.hub()
	p.scale(hub, set, 2)
	p.expectReplicas(hub, set, 2)
	p.Eventually(p.machines(hub, "local-0"), patience, time.Second).Should(BeEquivalentTo(1))
	p.Eventually(p.machines(hub, "local-1"), patience, time.Second).Should(BeEquivalentTo(1), "another cluster of the name starts with its Machines")
	p.succeeds("local", "down", "--dir", p.dir)
	p.leavesNothing()
}
