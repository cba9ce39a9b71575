package support

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
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
	for what, test := range map[string]struct {
		field  string
		change func(*corev1.Pod)
	}{
		"metadata.namespace":         {"metadata.namespace", func(p *corev1.Pod) { p.Namespace = "load-01234567-0" }},
		"metadata.labels":            {"metadata.labels", func(p *corev1.Pod) { p.Labels = nil }},
		"spec.containers":            {"spec.containers", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, *main(p)) }},
		"spec.containers[0].name":    {"spec.containers[0].name", func(p *corev1.Pod) { main(p).Name = "main" }},
		"spec.containers[0].command": {"spec.containers[0].command", script},
		"spec.containers[0].args":    {"spec.containers[0].args", func(p *corev1.Pod) { main(p).Args = append(main(p).Args, "--config-dir=/script") }},
		"spec.containers[0].env": {"spec.containers[0].env", func(p *corev1.Pod) {
			main(p).Env = append(main(p).Env, corev1.EnvVar{Name: "LD_PRELOAD", Value: "/script/x.so"})
		}},
		"spec.containers[0].envFrom":   {"spec.containers[0].envFrom", func(p *corev1.Pod) { main(p).EnvFrom = make([]corev1.EnvFromSource, 1) }},
		"spec.containers[0].lifecycle": {"spec.containers[0].lifecycle", func(p *corev1.Pod) { main(p).Lifecycle = &corev1.Lifecycle{} }},
		"spec.containers[0].livenessProbe": {"spec.containers[0].livenessProbe", func(p *corev1.Pod) {
			main(p).LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh"}}}}
		}},
		"spec.containers[0].readinessProbe": {"spec.containers[0].readinessProbe", func(p *corev1.Pod) {
			main(p).ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)}}}
		}},
		"spec.containers[0].securityContext": {"spec.containers[0].securityContext", func(p *corev1.Pod) { security(p).RunAsUser = ptr.To[int64](0) }},
		"spec.securityContext":               {"spec.securityContext", func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = ptr.To[int64](0) }},
		"spec.containers[0].volumeMounts[3]": {"spec.containers[0].volumeMounts[3]", func(p *corev1.Pod) {
			main(p).VolumeMounts = append(main(p).VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/hollow-node", SubPath: "script"})
		}},
		"spec.containers[0].volumeMounts[0]": {"spec.containers[0].volumeMounts[0]", func(p *corev1.Pod) { main(p).VolumeMounts[0].SubPath = "other" }},
		"spec.containers[0].volumeMounts[1]": {"spec.containers[0].volumeMounts[1]", func(p *corev1.Pod) { main(p).VolumeMounts[1].MountPath = "/hollow-node/" }},
		"spec.volumes[0]": {"spec.volumes[0]", func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
		}},
		"spec.volumes[1]": {"spec.volumes[1]", func(p *corev1.Pod) {
			p.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "another"}}
		}},
		// What a row changes is refused by that field alone: else another check would hide one that is missing.
		"labels of another Machine": {"metadata.labels", func(p *corev1.Pod) { p.Labels[v1alpha1.MachineNameLabel] = "m2" }},
		"labels without a cluster":  {"metadata.labels", func(p *corev1.Pod) { delete(p.Labels, v1alpha1.ClusterNameLabel) }},
		"a container at first": {"spec.containers", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Command: []string{"/bin/sh"}}}
		}},
		"a container for debugging": {"spec.containers", func(p *corev1.Pod) { p.Spec.EphemeralContainers = make([]corev1.EphemeralContainer, 1) }},
		"other arguments":           {"spec.containers[0].args", func(p *corev1.Pod) { main(p).Args[1] = "--state-dir=/root" }},
		"too few arguments":         {"spec.containers[0].args", func(p *corev1.Pod) { main(p).Args = main(p).Args[:2] }},
		"a directory of its own":    {"spec.containers[0].lifecycle", func(p *corev1.Pod) { main(p).WorkingDir = "/script" }},
		"the address of another": {"spec.containers[0].env", func(p *corev1.Pod) {
			main(p).Env[0].ValueFrom.FieldRef.FieldPath = "metadata.annotations['ip']"
		}},
		"a probe of another port": {"spec.containers[0].livenessProbe", func(p *corev1.Pod) { main(p).LivenessProbe.HTTPGet.Port = intstr.FromInt32(22) }},
		"a probe of another host": {"spec.containers[0].livenessProbe", func(p *corev1.Pod) { main(p).LivenessProbe.HTTPGet.Host = "169.254.169.254" }},
		"a probe by gRPC": {"spec.containers[0].startupProbe", func(p *corev1.Pod) {
			main(p).StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 22}}}
		}},
		"more capabilities":   {"spec.containers[0].securityContext", func(p *corev1.Pod) { security(p).Capabilities = nil }},
		"more privileges":     {"spec.containers[0].securityContext", func(p *corev1.Pod) { security(p).AllowPrivilegeEscalation = nil }},
		"a user who may be 0": {"spec.securityContext", func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = nil }},
		"the group of root":   {"spec.securityContext", func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsGroup = ptr.To[int64](0) }},
		"a configuration from an annotation": {"spec.containers[0].volumeMounts[0]", func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "bootstrap-kubeconfig", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['kubeconfig']"}},
			}}}
		}},
		"a configuration of another volume": {"spec.containers[0].volumeMounts[0]", func(p *corev1.Pod) { main(p).VolumeMounts[0].Name = main(p).VolumeMounts[1].Name }},
		"a state that is given":             {"spec.containers[0].volumeMounts[1]", func(p *corev1.Pod) { main(p).VolumeMounts[1].Name = main(p).VolumeMounts[0].Name }},
		"a plan from the Secret":            {"spec.containers[0].volumeMounts[2]", func(p *corev1.Pod) { main(p).VolumeMounts[2].Name = main(p).VolumeMounts[0].Name }},
		"the configuration of the machine":  {"spec.containers[0].volumeMounts", func(p *corev1.Pod) { main(p).VolumeMounts = main(p).VolumeMounts[1:] }},
		"the state of the machine":          {"spec.containers[0].volumeMounts", func(p *corev1.Pod) { main(p).VolumeMounts = slices.Delete(main(p).VolumeMounts, 1, 2) }},
		"the plan of the machine":           {"spec.containers[0].volumeMounts", func(p *corev1.Pod) { main(p).VolumeMounts = main(p).VolumeMounts[:2] }},
	} {
		t.Run(what, func(t *testing.T) {
			pod := rendered(t)
			test.change(pod)
			refusals := CheckHollowNode(pod, "hollowfleet")
			if len(refusals) != 1 || refusals[0].Field != test.field || refusals[0].Reason == "" {
				t.Errorf("the refusals are %q", refusals)
			}
		})
	}
}
