package lifecycle

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// The kubelet versions between which the specs roll.
const (
	older = "v1.36.2"
	newer = "v1.37.0"
)

// pool is a MachineDeployment under test.
type pool struct {
	*v1alpha1.MachineDeployment
	member *localfleet.Member
	want   int
}

// newPool makes a MachineDeployment whose Machines have the older kubelet, and waits until all of them are Ready.
func newPool(ctx context.Context, name string, replicas int32, strategy v1alpha1.MachineDeploymentStrategy) *pool {
	GinkgoHelper()
	p := &pool{member: fleet.Members[0], want: int(replicas)}
	p.MachineDeployment = fleet.NewDeployment(ctx, p.member, name, replicas, func(d *v1alpha1.MachineDeployment) {
		d.Spec.Strategy = strategy
		d.Spec.Template.Spec.Versions.Kubelet = older
	})
	fleet.ExpectReady(ctx, p.member, name, p.want)
	p.rolledOut(ctx, older)
	return p
}

func rolling(surge, unavailable int32) v1alpha1.MachineDeploymentStrategy {
	return v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{
		MaxSurge: ptr.To(intstr.FromInt32(surge)), MaxUnavailable: ptr.To(intstr.FromInt32(unavailable)),
	}}
}

func inPlace(trigger v1alpha1.InPlaceTrigger) v1alpha1.MachineDeploymentStrategy {
	return v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{Trigger: trigger}}
}

// edit changes the MachineDeployment with a merge patch, as kubectl does.
func (p *pool) edit(ctx context.Context, patch string) {
	GinkgoHelper()
	Expect(fleet.HubClient.Patch(ctx, p.MachineDeployment, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

func (p *pool) upgrade(ctx context.Context) {
	GinkgoHelper()
	p.edit(ctx, `{"spec":{"template":{"spec":{"versions":{"kubelet":"`+newer+`"}}}}}`)
}

func (p *pool) machines(ctx context.Context) []v1alpha1.Machine {
	GinkgoHelper()
	return fleet.MachinesOf(ctx, NewWithT(GinkgoT()), p.member, p.Name)
}

// rolledOut waits until the rollout is complete and every Node runs that kubelet.
func (p *pool) rolledOut(ctx context.Context, kubelet string) {
	GinkgoHelper()
	p.progresses(ctx, v1alpha1.ReasonNewMachineSetAvailable)
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(p.kubelets(ctx, g)).To(And(HaveLen(p.want), HaveEach(kubelet)))
		status := p.Status
		g.Expect([]int32{status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas}).To(HaveEach(int32(p.want)))
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(p.MachineDeployment), p.MachineDeployment)).To(Succeed())
	}).Should(Succeed())
}

// progresses waits until the hub has seen the current spec, and gives that reason for its condition Progressing.
func (p *pool) progresses(ctx context.Context, reason string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(p.MachineDeployment), p.MachineDeployment)).To(Succeed())
		g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		progressing := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ProgressingCondition)
		g.Expect(progressing).To(HaveValue(HaveField("Reason", reason)))
	}).Should(Succeed())
}

// kubelets are the versions that the Nodes report, by name.
func (p *pool) kubelets(ctx context.Context, g Gomega) map[string]string {
	versions := map[string]string{}
	for _, node := range fleettest.NodesOf(ctx, g, p.member, p.Name) {
		versions[node.Name] = node.Status.NodeInfo.KubeletVersion
	}
	return versions
}

// identities are the UIDs of Machines and Nodes by name.
func (p *pool) identities(ctx context.Context) map[string]types.UID {
	GinkgoHelper()
	uids := map[string]types.UID{}
	for _, machine := range p.machines(ctx) {
		uids["Machine "+machine.Name] = machine.UID
	}
	for _, node := range fleettest.NodesOf(ctx, NewWithT(GinkgoT()), p.member, p.Name) {
		uids["Node "+node.Name] = node.UID
	}
	return uids
}

// cordons follows which Nodes of a pool take no pods.
type cordons struct {
	mu        sync.Mutex
	now, ever map[string]bool
	most      int
}

// cordons watches the pool's Nodes until the spec ends.
func (p *pool) cordons(ctx context.Context) *cordons {
	GinkgoHelper()
	seen := &cordons{now: map[string]bool{}, ever: map[string]bool{}}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watcher, err := p.member.Client.Watch(watching, &corev1.NodeList{}, client.MatchingLabels{fleettest.PoolLabel: p.Name})
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); ok {
				seen.note(node, event.Type == watch.Deleted)
			}
		}
	}()
	DeferCleanup(func() {
		cancel()
		watcher.Stop()
		<-done
	})
	return seen
}

func (c *cordons) note(node *corev1.Node, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.now, node.Name)
	if !gone && node.Spec.Unschedulable {
		c.now[node.Name], c.ever[node.Name] = true, true
	}
	c.most = max(c.most, len(c.now))
}

// seen returns the names of the Nodes that were ever cordoned, and how many were so at once.
func (c *cordons) seen() (ever []string, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.ever)), c.most
}

// hollow runs kubectl-hollow against the hub, and returns its exit code and all its output.
func hollow(ctx context.Context, args ...string) (int, string) {
	GinkgoHelper()
	program, err := testenv.Binary("kubectl-hollow")
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+fleet.Hub.AdminKubeconfig())
	output, err := command.CombinedOutput()
	if command.ProcessState == nil {
		Expect(err).NotTo(HaveOccurred())
	}
	return command.ProcessState.ExitCode(), string(output)
}

// rollout runs kubectl hollow rollout for the pool, which must succeed.
func (p *pool) rollout(ctx context.Context, verb string, args ...string) string {
	GinkgoHelper()
	code, output := hollow(ctx, append([]string{"rollout", verb, "machinedeployment", p.Name, "-n", p.Namespace}, args...)...)
	Expect(code).To(BeZero(), output)
	return output
}
