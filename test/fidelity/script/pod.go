package script

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// behaviour is what a container does, by the names of the annotations that tell a hollow node, which are those of the workload's flags.
type behaviour map[string]string

// onHollowOnly are annotations that the workload has no flag for: on the real node the same comes about in another way.
var onHollowOnly = []string{"image-pull-fails"}

func (b behaviour) args() (args []string) {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if !slices.Contains(onHollowOnly, name) {
			args = append(args, "--"+name+"="+b[name])
		}
	}
	return args
}

func (b behaviour) annotations() map[string]string {
	all := map[string]string{}
	for name, value := range b {
		all["hollowfleet.io/"+name] = value
	}
	return all
}

// newPod is a pod for the side's node, which the scheduler binds.
func (s *Side) newPod(name string, b behaviour, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: b.annotations()},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: s.Node},
			Containers: []corev1.Container{{
				Name: "main", Image: Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{app}, Args: b.args(),
			}},
			TerminationGracePeriodSeconds: ptr.To[int64](10),
		},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func main(pod *corev1.Pod) *corev1.Container { return &pod.Spec.Containers[0] }

// bound lets the kubelet decide, instead of the scheduler.
func (s *Side) bound(pod *corev1.Pod) { pod.Spec.NodeSelector, pod.Spec.NodeName = nil, s.Node }

// onlyOnce lets the containers of a pod not start again.
func onlyOnce(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }

func grace(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

// isReady tells whether a pod has the condition.
func isReady(pod *corev1.Pod) bool { return hasCondition(pod, corev1.PodReady) }

func hasCondition(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}

// isOver tells whether a pod has succeeded or failed.
func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func restarts(pod *corev1.Pod) int32 {
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0
	}
	return pod.Status.ContainerStatuses[0].RestartCount
}

// create makes a pod in the scene's namespace.
func (s *scene) create(ctx context.Context, pod *corev1.Pod) error {
	_, err := s.side.Client.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// delete ends a pod with its own grace period.
func (s *scene) delete(ctx context.Context, name string) error {
	return s.side.Client.CoreV1().Pods(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
}
