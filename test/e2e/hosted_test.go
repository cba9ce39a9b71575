package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// hostedSet is the SimulatedClusterSet of config/samples/simulatedclusterset.yaml, and sampleSize how many it asks for.
	hostedSet  = "simulated"
	sampleSize = 20
	// volumeClaim is the claim of each control plane.
	volumeClaim = "data-simcluster-0"
)

// hostsSimulatedClusters has the agent of c1 run simulated clusters that are asked for by objects, and takes them away again.
func hostsSimulatedClusters() {
	// Claim: A kind host runs the sample's set under PodSecurity restricted. Broken: the namespace is only baseline.
	It("should host the sample's simulated clusters as pods once its administrator allows it", func(ctx SpecContext) {
		allowSimulatedClusters(ctx, sampleSize)
		makeHostedVolumes(ctx, hostedNames(2)...)
		started := time.Now()
		run(ctx, applySampleWith(2))
		awaitHosted(ctx, 2)
		figure("2 simulated clusters as pods of one host, from kubectl apply to Ready", seconds(started))
		for _, name := range hostedNames(2) {
			working(ctx, name)
			Expect(controlPlaneVersion(ctx, name)()).To(HavePrefix("v1.36"))
			in := &corev1.Namespace{}
			Expect(c1.client.Get(ctx, client.ObjectKey{Name: hostedNamespace(name)}, in)).To(Succeed())
			Expect(in.Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))
			Expect(in.Annotations).To(HaveKeyWithValue("hollowfleet.io/certificates", "selfSigned"), "there is no cert-manager yet")
		}
		By("giving one machines, whose pods run in its namespace")
		readme(ctx, firstMachines, "c1", hostedNames(1)[0], "kubectl --kubeconfig c1.kubeconfig get nodes", "true")
		Expect(hollowNodePodsIn(ctx, c1, hostedNamespace(hostedNames(1)[0]))).To(HaveLen(2))
	})

	// Claim: On kind, killing hubs and agent in a hosted upgrade replaces nothing. Broken: the version in the pod's template.
	It("should upgrade their control planes in place, one after the other, also when hubs and the host's agent are killed", func(ctx SpecContext) {
		before, programs := hostedWorld(ctx, 2), append(podsOf(ctx, hub, hubNamespace, "hollowfleet-hub"), podsOf(ctx, c1, agentNamespace, "hollowfleet-agent")...)
		Expect(programs).To(HaveLen(3))
		started := time.Now()
		run(ctx, upgradeHosted)
		upgraded := map[string]bool{}
		for range hostedNames(2) {
			var name string
			Eventually(func() (string, error) {
				var err error
				name, err = upgrading(ctx, upgraded)
				return name, err
			}).WithPolling(50 * time.Millisecond).ShouldNot(BeEmpty())
			By("killing both hubs and the agent of c1 while " + name + " is upgraded")
			killContainers(hub, podsOf(ctx, hub, hubNamespace, "hollowfleet-hub"), "hub")
			killContainers(c1, podsOf(ctx, c1, agentNamespace, "hollowfleet-agent"), "agent")
			Expect(controlPlaneVersion(ctx, name)()).To(HavePrefix("v1.36"), "they were killed before it was upgraded")
			Eventually(controlPlaneVersion(ctx, name)).Should(HavePrefix("v1.37"))
			upgraded[name] = true
		}
		run(ctx, awaitUpgrade)
		for _, name := range hostedNames(2) {
			Eventually(controlPlaneVersion(ctx, name)).Should(HavePrefix("v1.37"))
			working(ctx, name)
		}
		figure("upgrade of 2 simulated clusters as pods, one after the other, hubs and agent killed twice", seconds(started))
		working(ctx, "c1", "c2")
		Expect(hostedWorld(ctx, 2)).To(Equal(before), "Machines, Nodes and containers stay")
		for i, program := range append(podsOf(ctx, hub, hubNamespace, "hollowfleet-hub"), podsOf(ctx, c1, agentNamespace, "hollowfleet-agent")...) {
			Expect(program.Status.ContainerStatuses[0].RestartCount).To(BeNumerically(">=", programs[i].Status.ContainerStatuses[0].RestartCount+2), program.Name)
		}
		By("making one more machine")
		run(ctx, "kubectl --namespace "+hostedNames(1)[0]+" scale machinedeployment workers --replicas=3\n"+
			"kubectl --namespace "+hostedNames(1)[0]+" wait machinedeployment workers --for=jsonpath='{.status.readyReplicas}'=3 --timeout 3m\n")
	})

	// Claim: A shrinking set loses its highest ordinal, a removed one everything. Broken: the lowest ordinal first.
	It("should remove the highest of them first, and leave nothing of the set", func(ctx SpecContext) {
		run(ctx, "kubectl scale simulatedclusterset "+hostedSet+" --replicas 1\n")
		Eventually(leftOf(ctx, hostedNames(2)[1])).Should(BeEmpty())
		working(ctx, hostedNames(1)...)
		removeHosted(ctx, 2)
		forbidSimulatedClusters(ctx)
		working(ctx, "c1", "c2")
	})
}

// measuresManySimulatedClusters runs where HOSTED= says how many there are to be: make e2e HOSTED=10 runs it, and no other spec.
func measuresManySimulatedClusters() {
	It("should host as many simulated clusters as are asked for", Label("hosted"), func(ctx SpecContext) {
		many, err := strconv.Atoi(os.Getenv("HOSTED"))
		if err != nil || many <= 0 {
			Skip("make e2e HOSTED=10 measures so many")
		}
		allowSimulatedClusters(ctx, max(many, sampleSize))
		makeHostedVolumes(ctx, hostedNames(many)...)
		started := time.Now()
		run(ctx, applySampleWith(many))
		awaitHosted(ctx, many)
		figure(fmt.Sprintf("%d simulated clusters as pods of one host, from kubectl apply to all Ready", many), seconds(started))
		measureHosted(ctx, many)
		started = time.Now()
		removeHosted(ctx, many)
		figure(fmt.Sprintf("%d of them removed, with namespaces and Clusters", many), seconds(started))
	})
}

const (
	// settling is after which the pods are at rest, and measured for how long their processor time is counted.
	settling, measured = time.Minute, 2 * time.Minute
)

// measureHosted has the kubelet say what the control planes take, their agents included, and each container alone.
func measureHosted(ctx context.Context, many int) {
	GinkgoHelper()
	wait(ctx, settling)
	before := usageOf(ctx, c1)
	wait(ctx, measured)
	after := usageOf(ctx, c1)
	memory, processor := map[string][]int64{}, map[string][]int64{}
	add := func(of string, used, had taken) {
		memory[of] = append(memory[of], used.Memory.WorkingSetBytes)
		took := used.CPU.Time.Sub(had.CPU.Time.Time)
		Expect(took).To(BeNumerically(">", 0), "the kubelet has not counted %s again", of)
		processor[of] = append(processor[of], 1000*(used.CPU.UsageCoreNanoSeconds-had.CPU.UsageCoreNanoSeconds)/took.Nanoseconds())
	}
	for _, name := range hostedNames(many) {
		pod := hostedNamespace(name) + "/simcluster-0"
		used, had := after[pod], before[pod]
		Expect(used.Memory.WorkingSetBytes).To(BeNumerically(">", 0), "the kubelet knows nothing of %s", pod)
		add("each pod", used.taken, had.taken)
		for _, container := range used.Containers {
			add("container "+container.Name, container.taken, had.container(container.Name))
		}
	}
	for _, of := range slices.Sorted(maps.Keys(memory)) {
		figure("memory of "+of+" at rest: working set", spread(memory[of], mebibyte, "MiB"))
		figure("processor of "+of+" at rest", spread(processor[of], 1, "m"))
	}
}

// spread has the mean of values, the least and the greatest.
func spread(values []int64, unit int64, name string) string {
	sum := int64(0)
	for _, value := range values {
		sum += value
	}
	return fmt.Sprintf("%d %s (%d to %d)", sum/int64(len(values))/unit, name, slices.Min(values)/unit, slices.Max(values)/unit)
}

// wait waits, unless the spec ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// applySampleWith chooses c1 as the host and applies the sample: as it stands, or with another number of clusters.
func applySampleWith(count int) string {
	script := "kubectl label clusters.hollowfleet.io c1 hosts=simulated-clusters --overwrite\n"
	if count == sampleSize {
		return script + "kubectl apply -f config/samples/simulatedclusterset.yaml\n"
	}
	return script + fmt.Sprintf("sed 's/replicas: %d$/replicas: %d/' config/samples/simulatedclusterset.yaml | kubectl apply -f -\n", sampleSize, count)
}

const (
	// upgradeHosted asks for the version of the control planes after that of the sample, and awaitUpgrade waits until all have it.
	upgradeHosted = `kubectl patch simulatedclusterset simulated --type merge --patch '{"spec":{"template":{"spec":{"versions":{"controlPlane":"v1.37"}}}}}'` + "\n"
	awaitUpgrade  = "kubectl hollow rollout status simulatedclusterset simulated --timeout 5m\n"
)

// allowSimulatedClusters has c1 host so many.
func allowSimulatedClusters(ctx context.Context, most int) {
	GinkgoHelper()
	run(ctx, "make images-load KIND="+c1.name+" ONLY=simcluster\n"+
		"helm --kubeconfig c1.kubeconfig upgrade agent bin/charts/agent.tgz --namespace "+agentNamespace+
		fmt.Sprintf(" --reuse-values --set simulatedClusters.enabled=true --set simulatedClusters.max=%d --wait\n", most))
	Eventually(condition(ctx, "c1", v1alpha1.ClusterSimulatedClustersAllowedCondition)).Should(HavePrefix("True"))
}

// forbidSimulatedClusters takes the rights back.
func forbidSimulatedClusters(ctx context.Context) {
	GinkgoHelper()
	run(ctx, "helm --kubeconfig c1.kubeconfig upgrade agent bin/charts/agent.tgz --namespace "+agentNamespace+
		" --reuse-values --set simulatedClusters.enabled=false --wait\n")
}

// hostedNames are those of the first clusters of the set.
func hostedNames(count int) (names []string) {
	for ordinal := range count {
		names = append(names, fmt.Sprintf("%s-%d", hostedSet, ordinal))
	}
	return names
}

func hostedNamespace(name string) string { return "simulated-" + name }

func makeHostedVolumes(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		makeVolume(ctx, name, hostedNamespace(name), volumeClaim)
	}
}

// awaitHosted waits until the set has so many, all of them Ready, and nothing else. It says of each that is not what it waits for.
func awaitHosted(ctx context.Context, count int) {
	GinkgoHelper()
	Eventually(func() (string, error) {
		set, list := &v1alpha1.SimulatedClusterSet{}, &v1alpha1.SimulatedClusterList{}
		if err := hub.client.Get(ctx, client.ObjectKey{Name: hostedSet}, set); err != nil {
			return "", err
		}
		told := fmt.Sprintf("%d of %d Ready", set.Status.ReadyReplicas, set.Status.Replicas)
		if err := hub.client.List(ctx, list, client.MatchingLabels{v1alpha1.SimulatedClusterSetNameLabel: hostedSet}); err != nil {
			return "", err
		}
		for _, one := range list.Items {
			if ready := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ReadyCondition); ready == nil {
				told += "\n" + one.Name + " has no condition Ready"
			} else if ready.Status != metav1.ConditionTrue {
				told += "\n" + one.Name + " " + ready.Reason + ": " + ready.Message
			}
		}
		return told, nil
	}, patience+time.Duration(count)*15*time.Second).Should(Equal(fmt.Sprintf("%d of %d Ready", count, count)))
}

// leftOf is what is left of a simulated cluster on the hub and its host.
func leftOf(ctx context.Context, name string) func() ([]string, error) {
	return func() (left []string, err error) {
		for what, get := range map[string]func() error{
			"SimulatedCluster": func() error {
				return hub.client.Get(ctx, client.ObjectKey{Namespace: "c1", Name: name}, &v1alpha1.SimulatedCluster{})
			},
			"Cluster":   func() error { return hub.client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.Cluster{}) },
			"namespace": func() error { return hub.client.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{}) },
			"the host's namespace": func() error {
				return c1.client.Get(ctx, client.ObjectKey{Name: hostedNamespace(name)}, &corev1.Namespace{})
			},
		} {
			switch err := get(); {
			case err == nil:
				left = append(left, what)
			case !apierrors.IsNotFound(err):
				return nil, err
			}
		}
		return left, nil
	}
}

// removeHosted removes the set, and its volumes, which are the test's.
func removeHosted(ctx context.Context, count int) {
	GinkgoHelper()
	run(ctx, "kubectl delete simulatedclusterset "+hostedSet+" --wait --timeout 5m\n")
	for _, name := range hostedNames(count) {
		Eventually(leftOf(ctx, name)).Should(BeEmpty())
	}
	shellIn(ctx, c1.kubeconfig, "kubectl delete persistentvolume "+strings.Join(hostedNames(count), " ")+"\n")
}

// controlPlaneVersion is what a simulated cluster of c1 runs.
func controlPlaneVersion(ctx context.Context, name string) func() (string, error) {
	return func() (string, error) {
		one := &v1alpha1.SimulatedCluster{}
		err := hub.client.Get(ctx, client.ObjectKey{Namespace: "c1", Name: name}, one)
		if one.Status.Versions == nil {
			return "", err
		}
		return one.Status.Versions.ControlPlane, err
	}
}

// upgrading names a simulated cluster of the set whose control plane is being upgraded, except those that are left out.
func upgrading(ctx context.Context, except map[string]bool) (string, error) {
	list := &v1alpha1.SimulatedClusterList{}
	err := hub.client.List(ctx, list, client.MatchingLabels{v1alpha1.SimulatedClusterSetNameLabel: hostedSet})
	for _, one := range list.Items {
		ready := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)
		if ready != nil && ready.Reason == v1alpha1.ReasonUpdating && !except[one.Name] {
			return one.Name, nil
		}
	}
	return "", err
}

// hostedWorld is everything that an upgrade of the first clusters of the set may not touch: Machines, hollow-node pods, and the containers of
// their control planes.
func hostedWorld(ctx context.Context, count int) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	for _, name := range hostedNames(count) {
		for machine, uid := range machineUIDs(ctx, name) {
			all[name+"/machine/"+machine] = uid
		}
		for pod, uid := range uids(hollowNodePodsIn(ctx, c1, hostedNamespace(name))) {
			all[name+"/pod/"+pod] = string(uid)
		}
		maps.Copy(all, starts(podsOf(ctx, c1, hostedNamespace(name), "hollowfleet-simcluster")))
	}
	return all
}

// killContainers ends a container of each pod with SIGKILL, as the kernel does where memory is short.
func killContainers(in *kindCluster, pods []corev1.Pod, name string) {
	GinkgoHelper()
	Expect(pods).NotTo(BeEmpty())
	for _, pod := range pods {
		for _, container := range pod.Status.ContainerStatuses {
			if container.Name == name && container.State.Running != nil {
				Expect(in.execOn(pod.Spec.NodeName, "ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", strings.TrimPrefix(container.ContainerID, "containerd://"))).To(Succeed())
			}
		}
	}
}
