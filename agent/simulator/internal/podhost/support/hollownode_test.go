package support

import (
	"encoding/json"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// rendered is a pod as the agent makes it.
func rendered(t *testing.T) *corev1.Pod {
	t.Helper()
	content, err := os.ReadFile("../../../../driver/hollow/testdata/pod.json")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(content, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestThePodOfAnAgentIsAHollowNode(t *testing.T) {
	pod := rendered(t)
	if refusals := CheckHollowNode(pod, "hollowfleet"); len(refusals) > 0 {
		t.Errorf("it is refused: %s", refusals)
	}
	pod.Spec.Containers[0].Args = pod.Spec.Containers[0].Args[:3]
	if refusals := CheckHollowNode(pod, "hollowfleet"); len(refusals) > 0 {
		t.Errorf("that of an earlier agent is refused: %s", refusals)
	}
}

func TestWhatIsNotAHollowNode(t *testing.T) {
	script := func(p *corev1.Pod) { main(p).Command = []string{"/bin/sh", "/script/run.sh"} }
	for field, change := range map[string]func(*corev1.Pod){
		"metadata.namespace":         func(p *corev1.Pod) { p.Namespace = "load-01234567-0" },
		"metadata.labels":            func(p *corev1.Pod) { p.Labels = nil },
		"spec.containers":            func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, *main(p)) },
		"spec.containers[0].name":    func(p *corev1.Pod) { main(p).Name = "main" },
		"spec.containers[0].command": script,
		"spec.containers[0].args":    func(p *corev1.Pod) { main(p).Args = append(main(p).Args, "--config-dir=/script") },
		"spec.containers[0].env": func(p *corev1.Pod) {
			main(p).Env = append(main(p).Env, corev1.EnvVar{Name: "LD_PRELOAD", Value: "/script/x.so"})
		},
		"spec.containers[0].envFrom":   func(p *corev1.Pod) { main(p).EnvFrom = make([]corev1.EnvFromSource, 1) },
		"spec.containers[0].lifecycle": func(p *corev1.Pod) { main(p).Lifecycle = &corev1.Lifecycle{} },
		"spec.containers[0].livenessProbe": func(p *corev1.Pod) {
			main(p).LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh"}}}}
		},
		"spec.containers[0].readinessProbe": func(p *corev1.Pod) {
			main(p).ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)}}}
		},
		"spec.containers[0].securityContext": func(p *corev1.Pod) { security(p).RunAsUser = ptr.To[int64](0) },
		"spec.securityContext":               func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = ptr.To[int64](0) },
		"spec.containers[0].volumeMounts[3]": func(p *corev1.Pod) {
			main(p).VolumeMounts = append(main(p).VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/hollow-node", SubPath: "script"})
		},
		"spec.containers[0].volumeMounts[0]": func(p *corev1.Pod) { main(p).VolumeMounts[0].SubPath = "other" },
		"spec.containers[0].volumeMounts[1]": func(p *corev1.Pod) { main(p).VolumeMounts[1].MountPath = "/hollow-node/" },
		"spec.volumes[0]": func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
		},
		"spec.volumes[1]": func(p *corev1.Pod) {
			p.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "another"}}
		},
	} {
		t.Run(field, func(t *testing.T) {
			pod := rendered(t)
			change(pod)
			refusals := CheckHollowNode(pod, "hollowfleet")
			if len(refusals) != 1 || refusals[0].Field != field || refusals[0].Reason == "" {
				t.Errorf("the refusals are %q", refusals)
			}
		})
	}
}
