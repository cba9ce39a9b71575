package script

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const staticName = "static"

// StaticPod is the manifest that both nodes have from their start.
func StaticPod() *corev1.Pod {
	pod := (&Side{}).newPod(staticName, nil)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Namespace, pod.Labels, pod.Spec.NodeSelector = metav1.NamespaceDefault, map[string]string{"app": staticName}, nil
	return pod
}

func staticSteps() []*Step {
	return []*Step{{Name: "static-pods", Row: rowStatic, Verdict: Adjustable, Run: runStatic}}
}

// runStatic looks at the mirror pod of the static pod, and deletes it: the kubelet makes another one, and leaves the container alone.
func runStatic(ctx context.Context, side *Side, r *Record) error {
	pods := side.Client.CoreV1().Pods(metav1.NamespaceDefault)
	name := staticName + "-" + side.Node
	var mirror *corev1.Pod
	untilReady := func(but types.UID) error {
		return eventually(ctx, "mirror pod "+name+" to be Ready", func(ctx context.Context) (done bool, err error) {
			mirror, err = pods.Get(ctx, name, metav1.GetOptions{})
			return err == nil && mirror.UID != but && isReady(mirror), err
		})
	}
	if err := untilReady(""); err != nil {
		return err
	}
	describeMirror(side, r, mirror)
	before := mirror
	deleted := time.Now()
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := untilReady(before.UID); err != nil {
		return err
	}
	r.took("another mirror pod after", time.Since(deleted))
	r.fact("container is the same", fmt.Sprint(before.Status.ContainerStatuses[0].ContainerID == mirror.Status.ContainerStatuses[0].ContainerID))
	r.fact("restarts", fmt.Sprint(restarts(mirror)))
	return nil
}

// describeMirror writes down what makes a pod the mirror of a static one.
func describeMirror(side *Side, r *Record, mirror *corev1.Pod) {
	r.fact("annotations", keys(mirror.Annotations))
	r.fact("source", mirror.Annotations["kubernetes.io/config.source"])
	hash := mirror.Annotations["kubernetes.io/config.hash"]
	r.fact("is the mirror of what is configured", fmt.Sprint(hash != "" && hash == mirror.Annotations["kubernetes.io/config.mirror"]))
	var owners []string
	for _, owner := range mirror.OwnerReferences {
		owners = append(owners, fmt.Sprint(owner.Kind, " ", owner.Name == side.Node, " ", owner.Controller != nil && *owner.Controller))
	}
	r.fact("owners", strings.Join(owners, ", "))
	r.fact("labels", keys(mirror.Labels))
	r.fact("node name", fmt.Sprint(mirror.Spec.NodeName == side.Node))
	r.fact("ServiceAccount and volumes", fmt.Sprint(mirror.Spec.ServiceAccountName, len(mirror.Spec.Volumes)))
	r.fact("priority", fmt.Sprint(mirror.Spec.PriorityClassName, mirror.Spec.Priority != nil))
	var tolerations []string
	for _, t := range mirror.Spec.Tolerations {
		tolerations = append(tolerations, fmt.Sprint(t.Key, t.Operator, t.Effect, t.TolerationSeconds))
	}
	slices.Sort(tolerations)
	r.fact("tolerations", strings.Join(tolerations, ", "))
	r.fact("QoS class and phase", fmt.Sprint(mirror.Status.QOSClass, " ", mirror.Status.Phase))
}
