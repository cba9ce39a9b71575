package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	workloadName     = "web"
	workloadReplicas = 6
	// workloadBudget is how many pods the disruption budget wants available at any time.
	workloadBudget = 5
	upgradeVersion = "v1.37.1"
)

// upgrade rolls the kubelets of one cluster under a workload with a disruption budget, and counts the
// workload's available pods all along.
func (d *demo) upgrade(ctx context.Context) error {
	member := d.fleet.members[2]
	if err := createWorkload(ctx, member.client); err != nil {
		return err
	}
	d.say("created Deployment %s of %d pods in %s, with a disruption budget of %d", workloadName, workloadReplicas, member.Name, workloadBudget)
	d.expect(ctx, fmt.Sprintf("%d pods are available", workloadReplicas), member.Name, wait, available(member, workloadReplicas))
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	count := make(chan samples, 1)
	go func() { count <- sample(sampling, member) }()
	if err := d.setVersion(ctx, member.Name, upgradeVersion); err != nil {
		return err
	}
	d.say("asked for kubelet %s in %s", upgradeVersion, member.Name)
	d.followRollout(ctx, member.Name)
	d.expect(ctx, "Nodes report the new kubelet version", member.Name, 2*wait, nodesReport(member, upgradeVersion))
	d.expectMachines(ctx, member, 3)
	d.expect(ctx, fmt.Sprintf("%d pods are available", workloadReplicas), member.Name, wait, available(member, workloadReplicas))
	stop()
	seen := <-count
	d.expect(ctx, fmt.Sprintf("never fewer than %d pods were available", workloadBudget), member.Name, wait, seen.atLeast(workloadBudget))
	return nil
}

func (d *demo) setVersion(ctx context.Context, cluster, version string) error {
	deployment := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: deploymentName}}
	patch := client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, version))
	if err := d.fleet.client.Patch(ctx, deployment, patch); err != nil {
		return fmt.Errorf("setting the kubelet version of MachineDeployment %s/%s: %w", cluster, deploymentName, err)
	}
	return nil
}

// followRollout shows what the plugin says of a rollout until it is done. Whether it is well done, the facts say.
func (d *demo) followRollout(ctx context.Context, cluster string) {
	limited, cancel := context.WithTimeout(ctx, 2*wait)
	defer cancel()
	err := d.fleet.run(limited, &lines{say: d.say}, "rollout", "status", "machinedeployment", deploymentName,
		"--namespace", cluster, "--kubeconfig", d.fleet.hub.Kubeconfig)
	if err != nil && ctx.Err() == nil {
		d.say("the rollout is not done: %v", err)
	}
}

// createWorkload makes a Deployment on the hollow nodes and its PodDisruptionBudget.
func createWorkload(ctx context.Context, c client.Client) error {
	labels := map[string]string{"app": workloadName}
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: workloadName}
	for _, object := range []client.Object{
		&policyv1.PodDisruptionBudget{
			ObjectMeta: meta,
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: ptr.To(intstr.FromInt32(workloadBudget)),
				Selector:     &metav1.LabelSelector{MatchLabels: labels},
			},
		},
		&appsv1.Deployment{
			ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](workloadReplicas),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						NodeSelector:                  map[string]string{v1alpha1.HollowNodeLabel: "true"},
						TerminationGracePeriodSeconds: ptr.To[int64](1),
						Containers:                    []corev1.Container{{Name: "web", Image: "example.com/web"}},
					},
				},
			},
		},
	} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, workloadName, err)
		}
	}
	return nil
}

// availablePods counts the workload's pods that are Ready, not on their way out, and on a Node that is there and
// Ready: what the pod of a removed Node last said of itself does not count.
func availablePods(ctx context.Context, member *member) (int, error) {
	nodes, err := hollowNodes(ctx, member)
	if err != nil {
		return 0, err
	}
	up := map[string]bool{}
	for _, node := range nodes {
		up[node.Name] = nodeReady(&node)
	}
	pods := &corev1.PodList{}
	if err := member.client.List(ctx, pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": workloadName}); err != nil {
		return 0, err
	}
	ready := 0
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if up[pod.Spec.NodeName] && pod.DeletionTimestamp == nil && condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return ready, nil
}

func available(member *member, want int) look {
	return func(ctx context.Context) (string, bool, error) {
		ready, err := availablePods(ctx, member)
		return fmt.Sprintf("%d available", ready), ready == want, err
	}
}

// samples is what was counted in a while.
type samples struct {
	taken, fewest int
}

func sample(ctx context.Context, member *member) samples {
	result := samples{fewest: workloadReplicas}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if ready, err := availablePods(ctx, member); err == nil {
			result.taken++
			result.fewest = min(result.fewest, ready)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return result
}

func (s samples) atLeast(want int) look {
	return func(context.Context) (string, bool, error) {
		return fmt.Sprintf("at least %d in %d samples", s.fewest, s.taken), s.taken > 0 && s.fewest >= want, nil
	}
}
