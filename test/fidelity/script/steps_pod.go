package script

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func podSteps() []*Step {
	return []*Step{
		{Name: "life", Row: rowEvents, Verdict: Adjustable, Run: inScene("life", runLife), Declared: []Declared{
			{Figure: "container ID", Because: "it names the runtime, which is none"},
			{Figure: "user in status", Because: "no process, so none of a user"},
		}},
		{
			Name: "refused", Row: rowAdmission, Verdict: Same, Run: inScene("refused", runRefused),
			// A kubelet reads a pod before it writes its status. Right after the pod was bound, the API server's node authorizer may not know yet
			// that the node may read it. The kubelet then tries again with the next status of any pod, or within 10 seconds.
			Tolerances: map[string]Tolerance{
				"cpu over": {Absolute: 10 * time.Second}, "selector over": {Absolute: 10 * time.Second}, "system over": {Absolute: 10 * time.Second},
			},
		},
		{Name: "restriction", Row: rowAdmission, Verdict: Same, Run: runRestriction},
		{Name: "init", Row: rowAdmission, Verdict: Same, Run: inScene("init", runInit)},
		{
			Name: "probes", Row: rowProbes, Verdict: Adjustable, Run: inScene("probes", runProbes),
			Declared: []Declared{{Figure: "slow messages of events", Because: "a hollow node says why: an annotation"}},
		},
		{
			Name: "liveness", Row: rowProbes, Verdict: Adjustable, Run: inScene("liveness", runLiveness),
			Declared: []Declared{{Figure: "ill messages of events", Because: "a hollow node says why: an annotation"}},
		},
		{Name: "configmap", Row: rowConfigMaps, Verdict: Adjustable, Run: inScene("configmap", runConfigMap)},
		{
			Name: "hooks", Row: rowHooks, Verdict: Absent, Run: inScene("hooks", runHooks),
			Declared: []Declared{{Figure: "Ready though its hook fails", Because: "the command does not run, so it does not fail"}},
		},
	}
}

// inScene gives a step a namespace of its own.
func inScene(name string, run func(context.Context, *scene, *Record) error) func(context.Context, *Side, *Record) error {
	return func(ctx context.Context, side *Side, r *Record) error {
		s, end, err := openScene(ctx, side, name)
		if err != nil {
			return err
		}
		defer end()
		return run(ctx, s, r)
	}
}

// play creates a pod, waits until it is as wanted, and writes down how long that took.
func (s *scene) play(ctx context.Context, r *Record, pod *corev1.Pod, what string, wanted func(*corev1.Pod) bool) error {
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	after, err := s.until(ctx, pod.Name, what, wanted)
	if err != nil {
		return err
	}
	r.took(pod.Name+" "+what, after)
	return nil
}

// end deletes a pod and writes down how long it takes to go.
func (s *scene) end(ctx context.Context, r *Record, name string) error {
	if err := s.delete(ctx, name); err != nil {
		return err
	}
	after, err := s.untilGone(ctx, name)
	if err != nil {
		return err
	}
	r.took(name+" gone", after)
	return s.untilEvent(ctx, name, "Killing")
}

// runLife is a pod that starts and is deleted.
func runLife(ctx context.Context, s *scene, r *Record) error {
	if err := s.play(ctx, r, s.side.newPod("plain", nil), "Ready", isReady); err != nil {
		return err
	}
	pod, err := s.existing(ctx, "plain")
	if err != nil {
		return err
	}
	r.fact("addresses", fmt.Sprint(pod.Status.PodIP != "", len(pod.Status.PodIPs), pod.Status.HostIP != ""))
	r.fact("QoS class", string(pod.Status.QOSClass))
	status := pod.Status.ContainerStatuses[0]
	runtime, _, _ := strings.Cut(status.ContainerID, "://")
	r.fact("container ID", runtime)
	r.fact("started", fmt.Sprint(ptr.Deref(status.Started, false)))
	r.fact("mounts in status", fmt.Sprint(len(status.VolumeMounts)))
	r.fact("user in status", fmt.Sprint(status.User != nil))
	r.fact("observed generation", fmt.Sprint(pod.Status.ObservedGeneration))
	if err := s.end(ctx, r, "plain"); err != nil {
		return err
	}
	s.describePod(ctx, r, "plain")
	return nil
}

// runRefused are pods that the kubelet refuses.
func runRefused(ctx context.Context, s *scene, r *Record) error {
	pods := []*corev1.Pod{
		s.side.newPod("cpu", nil, s.side.bound, func(pod *corev1.Pod) {
			main(pod).Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
		}),
		s.side.newPod("selector", nil, s.side.bound, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"no-node-has": "this"} }),
		s.side.newPod("system", nil, s.side.bound, func(pod *corev1.Pod) { pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }),
	}
	for _, pod := range pods {
		if err := s.play(ctx, r, pod, "over", isOver); err != nil {
			return err
		}
		if err := s.untilEvent(ctx, pod.Name, lastReason(ctx, s, pod.Name)); err != nil {
			return err
		}
		live, err := s.existing(ctx, pod.Name)
		if err != nil {
			return err
		}
		message := numbers.ReplaceAllString(s.normal(live.Status.Message), "N")
		s.describePod(ctx, r, pod.Name)
		r.fact(pod.Name+" message", message)
		r.fact(pod.Name+" messages of events", numbers.ReplaceAllString(r.Facts[pod.Name+" messages of events"], "N"))
	}
	return nil
}

func lastReason(ctx context.Context, s *scene, name string) string {
	pod, err := s.live(ctx, name)
	if err != nil || pod == nil {
		return ""
	}
	return pod.Status.Reason
}

// runRestriction lets the kubelet's user do what NodeRestriction refuses.
func runRestriction(ctx context.Context, side *Side, r *Record) error {
	config := rest.CopyConfig(side.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + side.Node, Groups: []string{"system:nodes", "system:authenticated"}}
	node, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	patch := func(name, text string) string {
		_, err := node.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return string(apierrors.ReasonForError(err))
	}
	r.fact("its own label", patch(side.Node, `{"metadata":{"labels":{"example.com/own":"x"}}}`))
	r.fact("a restricted label", patch(side.Node, `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`))
	r.fact("a taint", patch(side.Node, `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`))
	r.fact("another Node", patch(side.Pressed, `{"metadata":{"labels":{"example.com/own":"x"}}}`))
	return nil
}

// runInit is a pod with an init container, a sidecar and a main container that ends by itself.
func runInit(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("init", behaviour{"exit-after": "4s"}, onlyOnce, func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "first", Image: Image, Command: []string{app}, Args: []string{"exit", "0"}},
			{Name: "sidecar", Image: Image, Command: []string{app}, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		}
	})
	if err := s.play(ctx, r, pod, "Ready", isReady); err != nil {
		return err
	}
	after, err := s.until(ctx, "init", "over", isOver)
	if err != nil {
		return err
	}
	r.took("init over", after)
	s.describePod(ctx, r, "init")
	return nil
}

func httpProbe(path string, period int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}},
		PeriodSeconds: period, FailureThreshold: 30,
	}
}

// runProbes is a pod that is started after 3 and ready after 8 seconds.
func runProbes(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("slow", behaviour{"started-after": "3s", "ready-after": "8s"}, func(pod *corev1.Pod) {
		main(pod).StartupProbe, main(pod).ReadinessProbe = httpProbe("/started", 1), httpProbe("/ready", 1)
	})
	started := func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) > 0 && ptr.Deref(pod.Status.ContainerStatuses[0].Started, false)
	}
	if err := s.play(ctx, r, pod, "started", started); err != nil {
		return err
	}
	after, err := s.until(ctx, "slow", "Ready", isReady)
	if err != nil {
		return err
	}
	r.took("slow Ready", after)
	if err := s.untilEvent(ctx, "slow", "Unhealthy"); err != nil {
		return err
	}
	s.describePod(ctx, r, "slow")
	return nil
}

// runLiveness is a pod that the kubelet starts again, because its liveness probe fails.
func runLiveness(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("ill", behaviour{"liveness-fails-after": "5s", "terminates-after": "1s"}, func(pod *corev1.Pod) {
		main(pod).LivenessProbe = httpProbe("/live", 2)
		main(pod).LivenessProbe.FailureThreshold = 2
	})
	if err := s.play(ctx, r, pod, "started again", func(pod *corev1.Pod) bool { return restarts(pod) == 1 }); err != nil {
		return err
	}
	live, err := s.existing(ctx, "ill")
	if err != nil {
		return err
	}
	r.fact("last state", stateText(corev1.ContainerStatus{State: live.Status.ContainerStatuses[0].LastTerminationState}))
	s.describePod(ctx, r, "ill")
	return nil
}

// runConfigMap is a pod that waits for a ConfigMap as a volume, and one that waits for it as a variable.
func runConfigMap(ctx context.Context, s *scene, r *Record) error {
	volume := s.side.newPod("volume", nil, func(pod *corev1.Pod) {
		source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "late", VolumeSource: source}}
		main(pod).VolumeMounts = []corev1.VolumeMount{{Name: "late", MountPath: "/late"}}
	})
	variable := s.side.newPod("variable", nil, func(pod *corev1.Pod) {
		from := corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}
		main(pod).EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &from}}
	})
	for _, pod := range []*corev1.Pod{volume, variable} {
		if err := s.create(ctx, pod); err != nil {
			return err
		}
	}
	if err := s.untilEvent(ctx, "volume", "FailedMount"); err != nil {
		return err
	}
	if err := s.untilEvent(ctx, "variable", "Failed"); err != nil {
		return err
	}
	if err := sleep(ctx, 5*time.Second); err != nil {
		return err
	}
	late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string]string{"key": "value"}}
	if _, err := s.side.Client.CoreV1().ConfigMaps(s.namespace).Create(ctx, late, metav1.CreateOptions{}); err != nil {
		return err
	}
	created := time.Now()
	for _, name := range []string{"volume", "variable"} {
		if _, err := s.until(ctx, name, "Ready", isReady); err != nil {
			return err
		}
		r.took(name+" Ready after the ConfigMap came", time.Since(created))
		s.describePod(ctx, r, name)
	}
	return nil
}

// runHooks is a pod whose hooks take time, and one whose hook fails.
func runHooks(ctx context.Context, s *scene, r *Record) error {
	lifecycle := func(hooks corev1.Lifecycle) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { main(pod).Lifecycle = &hooks }
	}
	sleeps := func(seconds int64) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}
	}
	slow := s.side.newPod("sleeps", nil, lifecycle(corev1.Lifecycle{PostStart: sleeps(3), PreStop: sleeps(4)}))
	if err := s.play(ctx, r, slow, "Ready", isReady); err != nil {
		return err
	}
	if err := s.end(ctx, r, "sleeps"); err != nil {
		return err
	}
	s.describePod(ctx, r, "sleeps")
	fails := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{app, "exit", "1"}}}
	if err := s.create(ctx, s.side.newPod("fails", nil, lifecycle(corev1.Lifecycle{PostStart: fails}))); err != nil {
		return err
	}
	if err := sleep(ctx, 8*time.Second); err != nil {
		return err
	}
	live, err := s.existing(ctx, "fails")
	if err != nil {
		return err
	}
	r.fact("Ready though its hook fails", fmt.Sprint(isReady(live)))
	return nil
}
