package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// hollow are the Nodes of Machines.
var hollow = client.HasLabels{v1alpha1.HollowNodeLabel}

func hollowNodes(ctx context.Context, in *kindCluster) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	err := in.client.List(ctx, list, hollow)
	return list.Items, err
}

func nodeIsReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// readyKubelets are the versions of the kubelets of the hollow Nodes that are Ready, one for each Node.
func readyKubelets(ctx context.Context, in *kindCluster) func() ([]string, error) {
	return func() ([]string, error) {
		all, err := hollowNodes(ctx, in)
		versions := []string{}
		for i := range all {
			if nodeIsReady(&all[i]) {
				versions = append(versions, all[i].Status.NodeInfo.KubeletVersion)
			}
		}
		return versions, err
	}
}

// instances are the UIDs of everything that a freeze must keep: hollow-node pods and Nodes, by their names.
func instances(ctx context.Context, in *kindCluster) func() (map[string]types.UID, error) {
	return func() (map[string]types.UID, error) {
		uids := map[string]types.UID{}
		all, err := hollowNodes(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range all {
			uids["node/"+all[i].Name] = all[i].UID
		}
		pods := &corev1.PodList{}
		if err := in.client.List(ctx, pods, client.InNamespace(agentNamespace), client.HasLabels{v1alpha1.MachineNameLabel}); err != nil {
			return nil, err
		}
		for i := range pods.Items {
			uids["pod/"+pods.Items[i].Name] = pods.Items[i].UID
		}
		return uids, nil
	}
}

// machines are the UIDs of the Machines of a cluster, by their names.
func machines(ctx context.Context, cluster string) func() (map[string]types.UID, error) {
	return func() (map[string]types.UID, error) {
		list := &v1alpha1.MachineList{}
		err := hub.client.List(ctx, list, client.InNamespace(cluster))
		uids := map[string]types.UID{}
		for i := range list.Items {
			uids[list.Items[i].Name] = list.Items[i].UID
		}
		return uids, err
	}
}

// condition is a condition of a Cluster as "status reason".
func condition(ctx context.Context, cluster, kind string) func() (string, error) {
	return func() (string, error) {
		object := &v1alpha1.Cluster{}
		if err := hub.client.Get(ctx, client.ObjectKey{Name: cluster}, object); err != nil {
			return "", err
		}
		found := meta.FindStatusCondition(object.Status.Conditions, kind)
		if found == nil {
			return "none", nil
		}
		return fmt.Sprintf("%s %s", found.Status, found.Reason), nil
	}
}

// usage is memory that the containers of a pod take.
type usage struct{ WorkingSetBytes, RSSBytes int64 }

// taken is what a pod or a container takes, as the kubelet counts it.
type taken struct {
	Memory usage
	CPU    struct {
		Time                 metav1.Time
		UsageCoreNanoSeconds int64
	}
}

// podUsage is what a pod takes, and each of its containers.
type podUsage struct {
	taken
	Containers []struct {
		Name string
		taken
	}
}

// container is what one container takes.
func (p podUsage) container(name string) taken {
	for _, each := range p.Containers {
		if each.Name == name {
			return each.taken
		}
	}
	return taken{}
}

const mebibyte = 1 << 20

// memory is what pods take, as text.
func memory(ctx context.Context, in *kindCluster, namespace string, labels client.ListOption) string {
	var text string
	for _, used := range memoryOf(ctx, in, namespace, labels) {
		text += fmt.Sprintf("%.0f MiB (RSS %.0f) ", float64(used.WorkingSetBytes)/mebibyte, float64(used.RSSBytes)/mebibyte)
	}
	return text
}

// usageOf is what the pods of the node with the control plane take, as its kubelet has it, by "namespace/name".
func usageOf(ctx context.Context, in *kindCluster) map[string]podUsage {
	clients, err := kubernetes.NewForConfig(in.config)
	Expect(err).NotTo(HaveOccurred())
	raw, err := clients.CoreV1().RESTClient().Get().Resource("nodes").Name(in.nodeName()).SubResource("proxy").Suffix("stats/summary").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	var summary struct {
		Pods []struct {
			PodRef struct{ Name, Namespace string }
			podUsage
		}
	}
	Expect(json.Unmarshal(raw, &summary)).To(Succeed())
	all := map[string]podUsage{}
	for _, measured := range summary.Pods {
		all[measured.PodRef.Namespace+"/"+measured.PodRef.Name] = measured.podUsage
	}
	return all
}

// memoryOf is what pods take.
func memoryOf(ctx context.Context, in *kindCluster, namespace string, labels client.ListOption) (all []usage) {
	measured := usageOf(ctx, in)
	pods := &corev1.PodList{}
	Expect(in.client.List(ctx, pods, client.InNamespace(namespace), labels)).To(Succeed())
	for _, pod := range pods.Items {
		if used, has := measured[pod.Namespace+"/"+pod.Name]; has {
			all = append(all, used.Memory)
		}
	}
	return all
}

// restricted makes a namespace that admits only pods of PodSecurity "restricted".
func restricted(ctx context.Context, in *kindCluster, name string) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}}}
	Expect(in.client.Create(ctx, namespace)).To(Succeed())
}

// hollowNodePods are the pods that the agent has made of Machines.
func hollowNodePods(ctx context.Context, in *kindCluster) []corev1.Pod {
	return hollowNodePodsIn(ctx, in, agentNamespace)
}

func hollowNodePodsIn(ctx context.Context, in *kindCluster, namespace string) []corev1.Pod {
	pods := &corev1.PodList{}
	Expect(in.client.List(ctx, pods, client.InNamespace(namespace), client.HasLabels{v1alpha1.MachineNameLabel})).To(Succeed())
	return pods.Items
}

// untilAvailable is the time from the creation of a Deployment until all its replicas were available, in whole seconds: the API
// server keeps no fractions.
func untilAvailable(ctx context.Context, in *kindCluster, namespace, name string) time.Duration {
	deployment := &appsv1.Deployment{}
	Expect(in.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment)).To(Succeed())
	Expect(deployment.Status.AvailableReplicas).To(Equal(*deployment.Spec.Replicas))
	var latest metav1.Time
	for _, condition := range deployment.Status.Conditions {
		if condition.LastUpdateTime.After(latest.Time) {
			latest = condition.LastUpdateTime
		}
	}
	return latest.Sub(deployment.CreationTimestamp.Time)
}

// untilJoined is the time from the creation of an agent's Deployment until the hub has heard of it.
func untilJoined(ctx context.Context, in *kindCluster, cluster string) time.Duration {
	deployment := &appsv1.Deployment{}
	Expect(in.client.Get(ctx, client.ObjectKey{Namespace: agentNamespace, Name: "hollowfleet-agent"}, deployment)).To(Succeed())
	object := &v1alpha1.Cluster{}
	Expect(hub.client.Get(ctx, client.ObjectKey{Name: cluster}, object)).To(Succeed())
	joined := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ClusterJoinedCondition)
	Expect(joined).NotTo(BeNil())
	Expect(joined.Status).To(Equal(metav1.ConditionTrue))
	return joined.LastTransitionTime.Sub(deployment.CreationTimestamp.Time)
}
