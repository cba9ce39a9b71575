package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func (d *demo) clusterReady(name string) look {
	return func(ctx context.Context) (string, bool, error) {
		cluster := &v1alpha1.Cluster{}
		if err := d.fleet.client.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
			return "", false, err
		}
		ready := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ReadyCondition)
		if ready == nil {
			return "no Ready condition", false, nil
		}
		seen := fmt.Sprintf("Ready=%s, Kubernetes %s", ready.Status, cluster.Status.KubernetesVersion)
		return seen, ready.Status == "True", nil
	}
}

func hollowNodes(ctx context.Context, member *member) ([]corev1.Node, error) {
	nodes := &corev1.NodeList{}
	err := member.client.List(ctx, nodes, client.MatchingLabels{v1alpha1.HollowNodeLabel: "true"})
	return nodes.Items, err
}

func nodesReady(member *member, want int) look {
	return func(ctx context.Context) (string, bool, error) {
		nodes, err := hollowNodes(ctx, member)
		if err != nil {
			return "", false, err
		}
		ready := 0
		for _, node := range nodes {
			if nodeReady(&node) {
				ready++
			}
		}
		return fmt.Sprintf("%d of %d Ready", ready, len(nodes)), ready == want && len(nodes) == want, nil
	}
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func nodesReport(member *member, version string) look {
	return func(ctx context.Context) (string, bool, error) {
		nodes, err := hollowNodes(ctx, member)
		if err != nil {
			return "", false, err
		}
		reporting := 0
		for _, node := range nodes {
			if node.Status.NodeInfo.KubeletVersion == version {
				reporting++
			}
		}
		return fmt.Sprintf("%d of %d report %s", reporting, len(nodes), version), len(nodes) > 0 && reporting == len(nodes), nil
	}
}

// machinesReady asks for want Machines, each Ready, with the name, UID and providerID of a Node which the
// workload cluster has.
func (d *demo) machinesReady(member *member, want int) look {
	return func(ctx context.Context) (string, bool, error) {
		machines := &v1alpha1.MachineList{}
		if err := d.fleet.client.List(ctx, machines, client.InNamespace(member.Name)); err != nil {
			return "", false, err
		}
		nodes, err := hollowNodes(ctx, member)
		if err != nil {
			return "", false, err
		}
		byName := map[string]corev1.Node{}
		for _, node := range nodes {
			byName[node.Name] = node
		}
		ready, referenced := 0, 0
		for _, machine := range machines.Items {
			if meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
				ready++
			}
			if ref := machine.Status.NodeRef; ref != nil && machine.Spec.ProviderID != nil {
				node := byName[ref.Name]
				if node.UID == ref.UID && node.Spec.ProviderID == *machine.Spec.ProviderID {
					referenced++
				}
			}
		}
		seen := fmt.Sprintf("%d of %d Ready, %d NodeRefs match", ready, len(machines.Items), referenced)
		return seen, ready == want && referenced == want && len(machines.Items) == want, nil
	}
}

func hollowPods(member *member, want int) look {
	return func(ctx context.Context) (string, bool, error) {
		pods := &corev1.PodList{}
		if err := member.client.List(ctx, pods, client.HasLabels{v1alpha1.MachineNameLabel}); err != nil {
			return "", false, err
		}
		return fmt.Sprintf("%d pods", len(pods.Items)), len(pods.Items) == want, nil
	}
}
