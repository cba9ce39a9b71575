//go:build linux

package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/report"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	livePatience = 5 * time.Minute
	glance       = 200 * time.Millisecond
	sourceName   = "src"
	nodes        = 5
)

// groups are the Nodes of the cluster, in the order in which they are upgraded.
var groups = []struct {
	name  string
	nodes int32
}{{"blue", 3}, {"green", 2}}

// live is a local fleet with a host, and a cluster whose upgrade is rehearsed.
type live struct {
	*testing.T
	*WithT
	dir string
	hub client.WithWatch
	// kubeconfig is the hub's.
	kubeconfig string
	source     client.Client
}

func startLive(t *testing.T) *live {
	t.Helper()
	g := NewWithT(t)
	bin, err := testenv.BinDir()
	g.Expect(err).NotTo(HaveOccurred())
	parent, err := os.MkdirTemp("", "rh-") //nolint:usetesting // The path of a socket must be short.
	g.Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(parent, "fleet")
	ctx, cancel := context.WithTimeout(context.Background(), livePatience)
	defer cancel()
	fleet, err := localfleet.Up(ctx, localfleet.Options{
		Dir: dir, Kept: true, Host: true, Programs: localfleet.Programs{BinDir: bin, Isolation: localfleet.IsolationShared, NodesPerPack: 10},
		Progress: func(line string) { t.Log(line) },
	})
	g.Expect(err).NotTo(HaveOccurred())
	keeping, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fleet.Keep(keeping)
	}()
	t.Cleanup(func() {
		end()
		<-ended
		NewWithT(t).Expect(fleet.Down()).To(Succeed())
		NewWithT(t).Expect(os.RemoveAll(parent)).To(Succeed())
	})
	report, err := localfleet.ReadReport(dir)
	g.Expect(err).NotTo(HaveOccurred())
	return &live{T: t, WithT: g, dir: dir, hub: fleet.HubClient, kubeconfig: report.Hub.Kubeconfig}
}

func isReady(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ReadyCondition)
}

// createSource makes the cluster: v1.36, two groups of Nodes, and in each a workload whose budget lets one pod go at a time.
func (l *live) createSource() {
	l.Helper()
	l.Eventually(func() (bool, error) {
		host := &v1alpha1.Cluster{}
		err := l.hub.Get(l.Context(), client.ObjectKey{Name: localfleet.HostName}, host)
		return meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.ClusterSimulatedClustersAllowedCondition), err
	}, livePatience, glance).Should(BeTrue())
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: localfleet.HostName, Name: sourceName}}
	one.Spec.Versions.ControlPlane = "v1.36"
	l.Expect(l.hub.Create(l.Context(), one)).To(Succeed())
	l.Eventually(func() (bool, error) {
		err := l.hub.Get(l.Context(), client.ObjectKeyFromObject(one), one)
		return isReady(one.Status.Conditions), err
	}, livePatience, glance).Should(BeTrue())
	for _, group := range groups {
		l.createGroup(group.name, group.nodes)
	}
	config, err := clientcmd.BuildConfigFromFlags("", (&localFleet{Report: localfleet.Report{Dir: l.dir}}).kubeconfigOf(sourceName))
	l.Expect(err).NotTo(HaveOccurred())
	l.source, err = client.New(config, client.Options{Scheme: scheme.New()})
	l.Expect(err).NotTo(HaveOccurred())
	l.createShop()
}

// createGroup creates a group of Nodes.
func (l *live) createGroup(group string, nodes int32) {
	l.Helper()
	labels := map[string]string{"g": group}
	deployment := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: sourceName, Name: group}, Spec: v1alpha1.MachineDeploymentSpec{
		ClusterName: sourceName, Replicas: &nodes, Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: v1alpha1.MachineTemplate{
			Metadata: v1alpha1.TemplateMetadata{Labels: labels},
			Spec: v1alpha1.MachineTemplateBody{
				NodeMetadata: v1alpha1.NodeMetadata{Labels: map[string]string{"pool": group}}, Versions: v1alpha1.MachineVersions{Kubelet: "v1.36.1"},
				ProviderConfig: v1alpha1.ProviderConfig{Value: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","terminationPercent":20,"hollowTaint":"Never"}`)}},
			},
		},
	}}
	l.Expect(l.hub.Create(l.Context(), deployment)).To(Succeed())
	l.awaitNodes(group, nodes)
}

// awaitNodes waits until the Machines of a group are of its template and available.
func (l *live) awaitNodes(group string, nodes int32) {
	l.Helper()
	l.Eventually(func() (bool, error) {
		d := &v1alpha1.MachineDeployment{}
		err := l.hub.Get(l.Context(), client.ObjectKey{Namespace: sourceName, Name: group}, d)
		s := &d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == nodes && s.Replicas == nodes && s.AvailableReplicas == nodes, err
	}, livePatience, glance).Should(BeTrue())
}

func (l *live) createShop() {
	l.Helper()
	labels, cart, other := map[string]string{"app": "web"}, map[string]string{"app": "cart"}, map[string]string{"app": "ledger"}
	pods := func(labels map[string]string, group string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"pool": group}, TerminationGracePeriodSeconds: new(int64(20)),
			Affinity:   &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}}}}},
			Containers: []corev1.Container{{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}},
		}}
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(6)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pods(labels, "blue")}},
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MaxUnavailable: new(intstr.FromInt32(1))}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(6)), Selector: &metav1.LabelSelector{MatchLabels: cart}, Template: pods(cart, "green")}},
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: cart}, MaxUnavailable: new(intstr.FromInt32(1))}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ledger"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: other}, Template: pods(other, "blue")}},
	} {
		l.Expect(l.source.Create(l.Context(), object)).To(Succeed())
	}
	for name, want := range map[string]int32{"web": 6, "cart": 6, "ledger": 1} {
		l.Eventually(func() (int32, error) {
			d := &appsv1.Deployment{}
			err := l.source.Get(l.Context(), client.ObjectKey{Namespace: "shop", Name: name}, d)
			return d.Status.ReadyReplicas, err
		}, livePatience, glance).Should(Equal(want))
	}
}

// rehearse runs the command against the source.
func (l *live) rehearse(ctx context.Context, args ...string) (*report.Report, string, error) {
	l.Helper()
	var out, errOut bytes.Buffer
	hub := cmdutil.NewHub(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	*hub.Flags.KubeConfig = l.kubeconfig
	c := NewCommand(hub)
	fleet := &localFleet{Report: localfleet.Report{Dir: l.dir}}
	c.SetArgs(append([]string{"--local-dir", l.dir, "--from-kubeconfig", fleet.kubeconfigOf(sourceName), "--ignore-preflight-errors", "all", "-o", "json"}, args...))
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.ExecuteContext(ctx)
	l.Log(errOut.String())
	if out.Len() == 0 {
		return nil, errOut.String(), err
	}
	result := &report.Report{}
	l.Expect(json.Unmarshal(out.Bytes(), result)).To(Succeed(), out.String())
	return result, errOut.String(), err
}

// left are the SimulatedClusters beside the source.
func (l *live) left() (names []string) {
	l.Helper()
	list := &v1alpha1.SimulatedClusterList{}
	l.Expect(l.hub.List(l.Context(), list)).To(Succeed())
	for _, one := range list.Items {
		if one.Name != sourceName {
			names = append(names, one.Name)
		}
	}
	return names
}

// upgradeSource upgrades the cluster itself, and observes that as a rehearsal is observed.
func (l *live) upgradeSource() *observe.Timeline {
	l.Helper()
	watching, stop := context.WithCancel(l.Context())
	fleet := &localFleet{Report: localfleet.Report{Dir: l.dir}}
	w := newWatcher(watching, l.hub, sourceName, func() string { return fleet.kubeconfigOf(sourceName) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(watching)
	}()
	l.Expect(w.await(l.Context(), func(s *observe.Sample) (bool, error) { return s.Answered && len(s.Machines) == nodes, nil })).To(Succeed())
	l.Expect(w.startTimeline()).To(Succeed())
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: localfleet.HostName, Name: sourceName}}
	l.Expect(l.hub.Patch(l.Context(), one, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"versions":{"controlPlane":"v1.37"}}}`)))).To(Succeed())
	l.Eventually(func() (bool, error) {
		err := l.hub.Get(l.Context(), client.ObjectKeyFromObject(one), one)
		return isReady(one.Status.Conditions) && isMinor(one.Status.Versions.ControlPlane, "v1.37"), err
	}, livePatience, glance).Should(BeTrue())
	for _, group := range groups {
		d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: sourceName, Name: group.name}}
		l.Expect(l.hub.Patch(l.Context(), d, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.37.0"}}}}}`)))).To(Succeed())
		l.awaitNodes(group.name, group.nodes)
	}
	_, timeline := w.endTimeline()
	stop()
	<-ended
	return timeline
}

// course is the order in which groups were drained, with the budgets that held a drain of each. Which of equal Nodes is the first of its group
// is not defined: they have names of their own.
func course(drains int, at func(int) (group string, outcome observe.Outcome, budgets []string)) []string {
	var order []string
	held := map[string][]string{}
	for i := range drains {
		group, outcome, budgets := at(i)
		order = append(order, group+" "+string(outcome))
		held[group] = append(held[group], budgets...)
	}
	for _, group := range slices.Sorted(maps.Keys(held)) {
		slices.Sort(held[group])
		order = append(order, fmt.Sprintf("%s held by %v", group, slices.Compact(held[group])))
	}
	return order
}

// Claim: A rehearsal has the drains of the upgrade itself, in its order and held by the same budgets, and leaves the cluster alone and nothing behind. Broken: kubelets upgraded before the hub knows the new control plane; groups in another order.
func TestARehearsalHeldAgainstTheUpgradeItself(t *testing.T) {
	testenv.Long(t)
	l := startLive(t)
	l.createSource()
	before := &appsv1.Deployment{}
	l.Expect(l.source.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, before)).To(Succeed())

	rehearsed, _, err := l.rehearse(t.Context(), "--max-surge", "1", "--max-unavailable", "0")
	l.Expect(err).NotTo(HaveOccurred())
	l.Expect(rehearsed.Verdict).To(Equal(report.Passed), fmt.Sprint(rehearsed.Findings))
	l.Expect(rehearsed.Source.RehearsedPods).To(Equal(13))
	l.Expect(rehearsed.Groups).To(HaveExactElements(And(HaveField("Name", "blue"), HaveField("Nodes", 3)), And(HaveField("Name", "green"), HaveField("Nodes", 2))))
	l.Expect(rehearsed.Versions).To(Equal(shape.Versions{From: "v1.36", To: "v1.37", Kubelet: "v1.37.0"}))
	l.Expect(rehearsed.Unknown).NotTo(BeEmpty())
	l.Expect(l.left()).To(BeEmpty())
	after := &appsv1.Deployment{}
	l.Expect(l.source.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, after)).To(Succeed())
	l.Expect(after.Generation).To(Equal(before.Generation))

	l.interrupts()
	l.timesOut()

	itself := l.upgradeSource()
	l.Expect(itself.Drains).To(HaveLen(nodes))
	l.Expect(rehearsed.Drains).To(HaveLen(nodes))
	for index, drain := range itself.Drains {
		t.Logf("drain %s of the upgrade itself: %s, held %v; rehearsed %s, held by %s", drain.Node, drain.End.Sub(drain.Start), drain.Blocked, rehearsed.Drains[index].Duration.Duration, rehearsed.Drains[index].HeldBy())
	}
	expected := course(nodes, func(i int) (string, observe.Outcome, []string) {
		return itself.Drains[i].Group, itself.Drains[i].Outcome, slices.Collect(maps.Keys(itself.Drains[i].Blocked))
	})
	l.Expect(expected).To(Equal([]string{
		"blue Drained", "blue Drained", "blue Drained", "green Drained", "green Drained", "blue held by [shop/web]", "green held by [shop/cart]",
	}))
	l.Expect(course(nodes, func(i int) (string, observe.Outcome, []string) {
		var budgets []string
		for _, block := range rehearsed.Drains[i].Blocks {
			budgets = append(budgets, block.Budget)
		}
		return rehearsed.Drains[i].Group, rehearsed.Drains[i].Outcome, budgets
	})).To(Equal(expected))
}

// interrupts holds that an interrupted rehearsal goes away, and says so.
func (l *live) interrupts() {
	l.Helper()
	ctx, interrupt := context.WithCancel(l.Context())
	defer interrupt()
	go func() {
		defer interrupt()
		for ctx.Err() == nil {
			machines := &v1alpha1.MachineList{}
			if l.hub.List(ctx, machines, client.InNamespace("rh-int")) == nil && len(machines.Items) == nodes {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(glance):
			}
		}
	}()
	_, said, err := l.rehearse(ctx, "--name", "rh-int")
	l.Expect(err).To(MatchError(context.Canceled))
	l.Expect(said).To(ContainSubstring("is being removed by the hub"))
	l.Eventually(l.left, livePatience, glance).Should(BeEmpty())
}

// timesOut holds that a budget which allows nothing fails the rehearsal, and only that.
func (l *live) timesOut() {
	l.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ledger"}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ledger"}}, MaxUnavailable: new(intstr.FromInt32(0)),
	}}
	l.Expect(l.source.Create(l.Context(), budget)).To(Succeed())
	result, _, err := l.rehearse(l.Context(), "--node-drain-timeout", "15s", "--order", "kubelets-first")
	l.Expect(cmdutil.Code(err)).To(Equal(cmdutil.TimedOut))
	l.Expect(result.Verdict).To(Equal(report.Failed))
	l.Expect(result.Findings).To(ContainElements(ContainSubstring("PodDisruptionBudget shop/ledger held it"), ContainSubstring("upgrade the control plane to v1.37 first")))
	l.Expect(result.Budgets).To(ContainElement(And(HaveField("Name", "shop/ledger"), HaveField("Never", "maxUnavailable: 0"), HaveField("TimedOut", BeNumerically(">", 0)))))
	l.Expect(l.source.Delete(l.Context(), budget)).To(Succeed())
	l.Expect(l.left()).To(BeEmpty())
}
