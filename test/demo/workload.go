package main

import (
	"context"
	"fmt"
	"sync"
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
)

// load runs a workload with a disruption budget in a cluster, and starts to count its available pods. The function that it
// returns ends that.
func (d *demo) load(ctx context.Context, member *member) (func() samples, error) {
	if err := createWorkload(ctx, member.client); err != nil {
		return nil, err
	}
	d.say("created Deployment %s of %d pods in %s, with a disruption budget of %d", workloadName, workloadReplicas, member.Name, workloadBudget)
	d.expectWorkload(ctx, member)
	sampling, stop := context.WithCancel(ctx)
	count := make(chan samples, 1)
	go func() { count <- sample(sampling, member) }()
	return sync.OnceValue(func() samples {
		stop()
		return <-count
	}), nil
}

func (d *demo) expectWorkload(ctx context.Context, member *member) {
	d.expect(ctx, fmt.Sprintf("%d pods are available", workloadReplicas), member.Name, wait, available(member, workloadReplicas))
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
