// Package autoscaler holds the hub to what an unmodified cluster-autoscaler with its clusterapi provider asks of it.
// The provider's requests are played one by one against a real API server with the real hub; the agent is played too.
package autoscaler

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var environment *testenv.Environment

func TestAutoscaler(t *testing.T) {
	fleettest.Run(t, "cluster-autoscaler's contract")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	environment, err = testenv.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
	Expect(hub.Install(ctx, environment.Config)).To(Succeed())
	Expect(config.Apply(ctx, environment.Client, config.RBAC, "rbac/autoscaler")).To(Succeed())

	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- hub.Run(running, hub.Options{
			Config: environment.Config, NoLeaderElection: true,
		})
	}()
	DeferCleanup(func() {
		stop()
		Eventually(done).WithTimeout(time.Minute).Should(Receive(BeNil()), "the hub stops")
	})
}, NodeTimeout(fleettest.StartTimeout))

// env is one accepted cluster with a class, and the autoscaler that looks after it.
type env struct {
	cluster    *v1alpha1.Cluster
	autoscaler *autoscaler
}

func newEnv(ctx context.Context) *env {
	GinkgoHelper()
	w := &env{cluster: &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c-" + rand.String(8)},
		Spec:       v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted},
	}}
	Expect(environment.Client.Create(ctx, w.cluster)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(environment.Client.Get(ctx, client.ObjectKeyFromObject(w.cluster), w.cluster)).To(Succeed())
		g.Expect(w.cluster.Status.Namespace).To(Equal(w.cluster.Name))
	}).Should(Succeed(), "the hub prepares the cluster's namespace")
	Expect(environment.Client.Create(ctx, &v1alpha1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Name, Name: "small"},
		Spec: v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderHollow, NodeTemplate: &v1alpha1.NodeTemplate{Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "ephemeral-storage": resource.MustParse("100Gi"),
			"pods": resource.MustParse("50"), "example.com/gpu": resource.MustParse("2"),
		}}},
	})).To(Succeed())
	w.autoscaler = newAutoscaler(ctx, credential(ctx, environment.Client, environment.Config, w.cluster.Name), w.cluster.Name)
	return w
}

// group waits until the autoscaler has a group in its cache.
func (w *env) group(kind, name string) nodeGroup {
	GinkgoHelper()
	var found nodeGroup
	Eventually(func(g Gomega) {
		groups, err := w.autoscaler.nodeGroups()
		g.Expect(err).NotTo(HaveOccurred())
		id := kind + "/" + w.cluster.Name + "/" + name
		g.Expect(groups).To(HaveKey(id))
		found = groups[id]
	}).Should(Succeed())
	return found
}

// pool is the group of the deployment "pool".
func (w *env) pool() nodeGroup {
	GinkgoHelper()
	return w.group("MachineDeployment", "pool")
}

// deployLone creates the MachineSet "lone", without a deployment and without Machines.
func (w *env) deployLone(ctx context.Context, annotations map[string]string) {
	GinkgoHelper()
	labels := map[string]string{"pool": "lone"}
	Expect(environment.Client.Create(ctx, &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Name, Name: "lone", Annotations: annotations},
		Spec: v1alpha1.MachineSetSpec{
			ClusterName: w.cluster.Name, Replicas: new(int32(0)),
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: template(labels),
		},
	})).To(Succeed())
}

func template(labels map[string]string) v1alpha1.MachineTemplate {
	return v1alpha1.MachineTemplate{
		Metadata: v1alpha1.TemplateMetadata{Labels: labels},
		Spec: v1alpha1.MachineTemplateBody{
			NodeMetadata:   v1alpha1.NodeMetadata{Labels: map[string]string{"zone": "a", "node.cluster.x-k8s.io/pool": "p"}},
			Taints:         []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}},
			Roles:          []string{"worker"},
			Versions:       v1alpha1.MachineVersions{Kubelet: "v1.36.2"},
			ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "small"}},
		},
	}
}

func sizes(least, most string) map[string]string {
	return map[string]string{v1alpha1.AutoscalerMinSizeAnnotation: least, v1alpha1.AutoscalerMaxSizeAnnotation: most}
}

// deploy creates a MachineDeployment and waits for its Machines.
func (w *env) deploy(ctx context.Context, name string, replicas int32, annotations map[string]string) *v1alpha1.MachineDeployment {
	GinkgoHelper()
	labels := map[string]string{"pool": name}
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Name, Name: name, Annotations: annotations},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: w.cluster.Name, Replicas: &replicas,
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: template(labels),
		},
	}
	Expect(environment.Client.Create(ctx, deployment)).To(Succeed())
	Eventually(func() int { return len(w.machines(ctx, name)) }).Should(BeEquivalentTo(replicas))
	return deployment
}

// machines lists the Machines of a pool that are not being deleted.
func (w *env) machines(ctx context.Context, pool string) []v1alpha1.Machine {
	GinkgoHelper()
	list := &v1alpha1.MachineList{}
	Expect(environment.Client.List(ctx, list, client.InNamespace(w.cluster.Name), client.MatchingLabels{"pool": pool})).To(Succeed())
	var active []v1alpha1.Machine
	for _, machine := range list.Items {
		if machine.DeletionTimestamp == nil {
			active = append(active, machine)
		}
	}
	return active
}

func names(machines []v1alpha1.Machine) []string {
	list := []string{}
	for _, machine := range machines {
		list = append(list, machine.Name)
	}
	return list
}

func providerID(machine *v1alpha1.Machine) string {
	return "hollow://" + machine.Namespace + "/" + machine.Name
}

// agent returns a client that is the agent of the cluster, which alone may set a Machine's provider ID.
func (w *env) agent(ctx context.Context) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "agent", Groups: []string{v1alpha1.AgentGroupPrefix + w.cluster.Name, "system:authenticated"},
	}
	agent, err := client.New(config, client.Options{Scheme: scheme.New()})
	Expect(err).NotTo(HaveOccurred())
	// The hub binds the agent's role after it has made the namespace.
	Eventually(ctx, func(ctx context.Context) error {
		return agent.List(ctx, &v1alpha1.MachineList{}, client.InNamespace(w.cluster.Name))
	}).Should(Succeed(), "the agent has its rights")
	return agent
}

// join does what the agent does when a Machine's Node is Ready.
func (w *env) join(ctx context.Context, machines ...v1alpha1.Machine) {
	GinkgoHelper()
	for i := range machines {
		machine := &machines[i]
		before := machine.DeepCopy()
		machine.Spec.ProviderID = new(providerID(machine))
		Expect(w.agent(ctx).Patch(ctx, machine, client.MergeFrom(before))).To(Succeed())
		before = machine.DeepCopy()
		machine.Status.Phase = v1alpha1.MachineRunning
		machine.Status.NodeRef = &v1alpha1.NodeReference{Kind: "Node", Name: machine.Name, UID: types.UID(machine.Name)}
		machine.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, LastTransitionTime: metav1.Now(),
		}}
		Expect(environment.Client.Status().Patch(ctx, machine, client.MergeFrom(before))).To(Succeed())
	}
}

// finish does what the agent does last with what is being deleted.
func (w *env) finish(ctx context.Context) {
	GinkgoHelper()
	list := &v1alpha1.MachineList{}
	Expect(environment.Client.List(ctx, list, client.InNamespace(w.cluster.Name))).To(Succeed())
	for i := range list.Items {
		if machine := &list.Items[i]; machine.DeletionTimestamp != nil {
			before := machine.DeepCopy()
			machine.Finalizers = nil
			Expect(client.IgnoreNotFound(environment.Client.Patch(ctx, machine, client.MergeFrom(before)))).To(Succeed())
		}
	}
}
