package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// pools are the MachineDeployments of c1 that are upgraded, in the order of the upgrade, with their Nodes.
var pools = []struct {
	name  string
	nodes int
}{{"blue", 3}, {"green", 1}}

// drained is a drain, as it went in c1 or in the rehearsal.
type drained struct {
	pool, outcome string
	took          time.Duration
	// held is how long each budget has held it.
	held map[string]time.Duration
}

// course is what must be the same in both: which pool, held by which budgets, with which outcome.
func (d drained) course() string {
	return fmt.Sprintf("%s held by %s: %s", d.pool, strings.Join(slices.Sorted(maps.Keys(d.held)), ", "), d.outcome)
}

// isRehearsed holds a rehearsal of c1 against the upgrade of c1 itself.
func isRehearsed() {
	// Claim: A rehearsal predicts a kind cluster's drains: order, budgets and duration. Broken: not broken alone.
	It("should be rehearsed as its upgrade goes", func(ctx SpecContext) {
		shellIn(ctx, hub.kubeconfig, poolsOf())
		shellIn(ctx, c1.kubeconfig, shop)
		started := time.Now()
		rehearsed := rehearse(ctx)
		figure("rehearsal of c1, with its 4 drains", seconds(started))

		started = time.Now()
		upgraded := upgradePools(ctx)
		figure("the same upgrade of c1 itself", seconds(started))
		for index, one := range upgraded {
			figure(fmt.Sprintf("drain %d, of %s: c1 itself, and in the rehearsal", index+1, one.pool), compareDrains(one, rehearsed, index))
		}
		Expect(courses(rehearsed)).To(Equal(courses(upgraded)))
		for name, itself := range heldFor(upgraded) {
			Expect(heldFor(rehearsed)[name].Seconds()).To(BeNumerically("~", itself.Seconds(), itself.Seconds()/3+3), "how long %s has held drains", name)
		}
		shellIn(ctx, c1.kubeconfig, "kubectl delete namespace shop --wait\n")
		run(ctx, "kubectl --namespace c1 delete machinedeployments blue green --wait\n")
		Eventually(readyKubelets(ctx, c1)).Should(ConsistOf(newer, newer))
	})
}

func compareDrains(itself drained, rehearsed []drained, index int) string {
	text := fmt.Sprintf("%.1f s", itself.took.Seconds())
	if index < len(rehearsed) {
		text += fmt.Sprintf(", %.1f s", rehearsed[index].took.Seconds())
	}
	return text
}

func courses(drains []drained) (all []string) {
	for _, one := range drains {
		all = append(all, one.course())
	}
	return all
}

// heldFor is how long each budget has held drains, all together.
func heldFor(drains []drained) map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, one := range drains {
		for name, held := range one.held {
			all[name] += held
		}
	}
	return all
}

// poolsOf makes the pools, one Node of a pool missing at a time.
func poolsOf() string {
	var script strings.Builder
	for _, pool := range pools {
		script.WriteString(strings.NewReplacer("NAME", pool.name, "COUNT", fmt.Sprint(pool.nodes), "VERSION", older).Replace(`kubectl apply -f - <<END
apiVersion: hollowfleet.io/v1alpha1
kind: MachineDeployment
metadata: {name: NAME, namespace: c1}
spec:
  clusterName: c1
  replicas: COUNT
  selector: {matchLabels: {pool: NAME}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  template:
    metadata: {labels: {pool: NAME}}
    spec:
      metadata: {labels: {pool: NAME}}
      versions: {kubelet: VERSION}
      timeouts: {drain: 40s}
      providerConfig:
        value: {apiVersion: hollowfleet.io/v1alpha1, kind: HollowNodeConfig, terminationPercent: 20, probes: Run}
END
kubectl --namespace c1 wait machinedeployment NAME --for=jsonpath='{.status.readyReplicas}'=COUNT --timeout 3m
`))
	}
	return script.String()
}

// shop has a budget that lets one pod go at a time, and one that lets none go.
const shop = `kubectl apply -f - <<END
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: ledger, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: ledger}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {hollowfleet.io/ready-after: 3s}
    spec:
      nodeSelector: {pool: blue}
      tolerations: [{key: hollowfleet.io/hollow, operator: Exists}]
      terminationGracePeriodSeconds: 20
      topologySpreadConstraints:
      - {topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      containers:
      - {name: web, image: "registry.example.com/web:1", readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ledger, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: ledger}}
  template:
    metadata: {labels: {app: ledger}}
    spec:
      nodeSelector: {pool: green}
      tolerations: [{key: hollowfleet.io/hollow, operator: Exists}]
      terminationGracePeriodSeconds: 20
      containers: [{name: ledger, image: "registry.example.com/ledger:1"}]
END
kubectl --namespace shop rollout status deployment web --timeout 2m
kubectl --namespace shop rollout status deployment ledger --timeout 2m
`

// startLocalFleet starts a hub with a host on this machine for as long as the spec runs, and returns its directory and the hub's kubeconfig.
func startLocalFleet(ctx context.Context) (dir, kubeconfig string) {
	GinkgoHelper()
	parent, err := os.MkdirTemp("", "rh-") // The path of a socket must be short.
	Expect(err).NotTo(HaveOccurred())
	dir = filepath.Join(parent, "fleet")
	DeferCleanup(func(ctx SpecContext) {
		run(ctx, "kubectl hollow local down --dir "+dir+"\n")
		Expect(os.RemoveAll(parent)).To(Succeed())
	})
	told := filepath.Join(parent, "fleet.json")
	run(ctx, "kubectl hollow local up --clusters 0 --dir "+dir+" --ignore-preflight-errors all -o json > "+told+"\n")
	content, err := os.ReadFile(told)
	Expect(err).NotTo(HaveOccurred())
	var report struct{ Hub struct{ Kubeconfig string } }
	Expect(json.Unmarshal(content, &report)).To(Succeed())
	Expect(report.Hub.Kubeconfig).NotTo(BeEmpty())
	return dir, report.Hub.Kubeconfig
}

// rehearse has a local fleet rehearse the upgrade of c1, and returns its drains.
func rehearse(ctx context.Context) (drains []drained) {
	GinkgoHelper()
	dir, kubeconfig := startLocalFleet(ctx)
	page := filepath.Join(work, "rehearsal.json")
	// The budget of the ledger fails the rehearsal, which is exit code 5.
	shellIn(ctx, kubeconfig, strings.NewReplacer("DIR", dir, "REPORT", page, "VERSION", newer).Replace(`code=0
kubectl hollow rehearse --local-dir DIR --from-kubeconfig c1.kubeconfig --ignore-preflight-errors all \
  --control-plane-version v1.37 --kubelet-version VERSION --max-surge 0 --max-unavailable 1 \
  --node-drain-timeout 40s --pod-ready-after 3s -o json --output-file REPORT || code=$?
[[ $code == 5 ]] || { echo "exit code $code"; exit 1; }
`))
	content, err := os.ReadFile(page)
	Expect(err).NotTo(HaveOccurred())
	var report struct {
		Verdict string
		Drains  []struct {
			Group, Outcome string
			Duration       metav1.Duration
			BlockedBy      []struct {
				Budget   string
				Duration metav1.Duration
			}
		}
	}
	Expect(json.Unmarshal(content, &report)).To(Succeed())
	Expect(report.Verdict).To(Equal("Failed"))
	for _, one := range report.Drains {
		held := map[string]time.Duration{}
		for _, block := range one.BlockedBy {
			held[block.Budget] = block.Duration.Duration
		}
		drains = append(drains, drained{one.Group, one.Outcome, one.Duration.Duration, held})
	}
	return drains
}

// upgradePools upgrades the kubelets of the pools, one pool after the other, and watches the drains.
func upgradePools(ctx context.Context) []drained {
	GinkgoHelper()
	seen := &observer{known: map[types.UID]*drained{}, began: map[types.UID]time.Time{}}
	for _, pool := range pools {
		run(ctx, fmt.Sprintf(`kubectl --namespace c1 patch machinedeployment %s --type merge --patch '{"spec":{"template":{"spec":{"versions":{"kubelet":"%s"}}}}}'`+"\n", pool.name, newer))
		Eventually(func(g Gomega) {
			g.Expect(seen.look(ctx)).To(Succeed())
			d := &v1alpha1.MachineDeployment{}
			g.Expect(hub.client.Get(ctx, client.ObjectKey{Namespace: "c1", Name: pool.name}, d)).To(Succeed())
			count := int32(pool.nodes)
			g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
			g.Expect([]int32{d.Status.UpdatedReplicas, d.Status.Replicas, d.Status.AvailableReplicas}).To(HaveEach(count))
		}, 2*patience).Should(Succeed())
	}
	Expect(seen.look(ctx)).To(Succeed())
	return seen.drains()
}

// observer sees drains from outside: Machines that are being deleted, and on their Nodes pods whose budget allows no eviction.
type observer struct {
	order []types.UID
	known map[types.UID]*drained
	began map[types.UID]time.Time
	last  time.Time
}

func (o *observer) drains() (all []drained) {
	for _, uid := range o.order {
		all = append(all, *o.known[uid])
	}
	return all
}

// look notes how the drains stand now. What is so now is taken to have been so since the last look.
func (o *observer) look(ctx context.Context) error {
	machines, pods, budgets := &v1alpha1.MachineList{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}
	if err := hub.client.List(ctx, machines, client.InNamespace("c1")); err != nil {
		return err
	}
	if err := c1.client.List(ctx, pods, client.InNamespace("shop")); err != nil {
		return err
	}
	if err := c1.client.List(ctx, budgets, client.InNamespace("shop")); err != nil {
		return err
	}
	now := time.Now()
	since := now.Sub(o.last)
	if o.last.IsZero() {
		since = 0
	}
	o.last = now
	for i := range machines.Items {
		machine := &machines.Items[i]
		if machine.DeletionTimestamp.IsZero() || machine.Status.NodeRef == nil {
			continue
		}
		one := o.known[machine.UID]
		if one == nil {
			one = &drained{pool: machine.Labels[v1alpha1.MachineDeploymentNameLabel], outcome: "Drained", held: map[string]time.Duration{}}
			o.order = append(o.order, machine.UID)
			o.known[machine.UID], o.began[machine.UID] = one, now
		}
		condition := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineDrainedCondition)
		isOver := condition != nil && condition.Status == metav1.ConditionTrue
		if condition != nil && condition.Reason == v1alpha1.ReasonDrainTimedOut {
			one.outcome, isOver = "TimedOut", true
		}
		if isOver {
			continue
		}
		one.took = now.Sub(o.began[machine.UID])
		for _, name := range holding(budgets.Items, pods.Items, machine.Status.NodeRef.Name) {
			one.held[name] += since
		}
	}
	return nil
}

// holding are the budgets that let no pod of a Node go now.
func holding(budgets []policyv1.PodDisruptionBudget, pods []corev1.Pod, node string) (names []string) {
	for i := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budgets[i].Spec.Selector)
		Expect(err).NotTo(HaveOccurred())
		if budgets[i].Status.DisruptionsAllowed == 0 && slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
			return pod.Spec.NodeName == node && pod.DeletionTimestamp.IsZero() && selector.Matches(labels.Set(pod.Labels))
		}) {
			names = append(names, budgets[i].Namespace+"/"+budgets[i].Name)
		}
	}
	return names
}
