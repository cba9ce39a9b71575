package script

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pressureSteps() []*Step {
	return []*Step{
		{Name: "pressure", Row: rowEvictions, Verdict: Adjustable, Run: inScene("pressure", runPressure), Tolerances: map[string]Tolerance{
			// The eviction manager looks every 10 seconds.
			"burstable over": {Absolute: 12 * time.Second}, "burstable gone": {Absolute: 12 * time.Second},
		}},
		{
			Name: "limits", Row: rowLimits, Verdict: Absent, Run: inScene("limits", runLimits),
			Declared: []Declared{{Figure: "evicted for its emptyDir", Because: "no files, so nothing to count"}},
		},
	}
}

// memoryLimit is half of what the pod of step oom takes.
func memoryLimit(pod *corev1.Pod) {
	main(pod).Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("48Mi")}
}

// runPressure is what a kubelet with too little memory does. Its threshold is so high that it always has too little.
func runPressure(ctx context.Context, s *scene, r *Record) error {
	err := eventually(ctx, "MemoryPressure", func(ctx context.Context) (bool, error) {
		node, err := s.side.Client.CoreV1().Nodes().Get(ctx, s.side.Pressed, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeMemoryPressure && condition.Status == corev1.ConditionTrue {
				r.fact("condition", condition.Reason+": "+condition.Message)
				r.fact("taints", taintsText(node))
				return len(node.Spec.Taints) > 0, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	onPressed := func(pod *corev1.Pod) { pod.Spec.NodeSelector, pod.Spec.NodeName = nil, s.side.Pressed }
	requests := func(pod *corev1.Pod) {
		main(pod).Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
	}
	if err := s.play(ctx, r, s.side.newPod("best-effort", nil, onPressed), "over", isOver); err != nil {
		return err
	}
	burstable := s.side.newPod("burstable", behaviour{"memory-usage": "64Mi"}, onPressed, requests, grace(3))
	if err := s.play(ctx, r, burstable, "over", isOver); err != nil {
		return err
	}
	for _, name := range []string{"best-effort", "burstable"} {
		live, err := s.existing(ctx, name)
		if err != nil {
			return err
		}
		// How far the pod came before the eviction is a matter of time, and so is what was used.
		message, _, _ := strings.Cut(live.Status.Message, " Threshold")
		r.fact(name+" message", message)
		r.fact(name+" reason", live.Status.Reason)
		for _, condition := range live.Status.Conditions {
			if condition.Type == corev1.DisruptionTarget {
				r.fact(name+" is a target of disruption", condition.Reason)
			}
		}
		if err := s.untilEvent(ctx, name, "Evicted"); err != nil {
			return err
		}
	}
	return nil
}

// runLimits is a container that writes more into its emptyDir than it may.
func runLimits(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("writes", nil, onlyOnce, grace(1), func(pod *corev1.Pod) {
		limit := resource.MustParse("1Mi")
		pod.Spec.Volumes = []corev1.Volume{{Name: "full", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
		main(pod).VolumeMounts = []corev1.VolumeMount{{Name: "full", MountPath: "/full"}}
		main(pod).Args = []string{"--write=/full/file"}
	})
	if err := s.play(ctx, r, pod, "Ready", isReady); err != nil {
		return err
	}
	// Volumes are measured once a minute.
	evicted := false
	for start := time.Now(); time.Since(start) < 80*time.Second && !evicted; {
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		live, err := s.live(ctx, "writes")
		if err != nil {
			return err
		}
		evicted = live != nil && live.Status.Reason == "Evicted"
	}
	r.fact("evicted for its emptyDir", fmt.Sprint(evicted))
	return nil
}
