package support

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

var (
	root = HostUser{UID: 0, GID: 0}
	user = HostUser{UID: 1000, GID: 1000}
)

// plain is a pod as the API server returns it, with its defaults, that asks for
// nothing special.
func plain() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		DNSPolicy:                     corev1.DNSClusterFirst,
		SchedulerName:                 corev1.DefaultSchedulerName,
		SecurityContext:               &corev1.PodSecurityContext{},
		TerminationGracePeriodSeconds: ptr.To[int64](30),
		EnableServiceLinks:            ptr.To(false),
		Priority:                      ptr.To[int32](0),
		PreemptionPolicy:              ptr.To(corev1.PreemptLowerPriority),
		Tolerations:                   []corev1.Toleration{{Key: HollowHost, Operator: corev1.TolerationOpExists}},
		Volumes: []corev1.Volume{
			{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr.To[int32](0o400)}}},
		},
		Containers: []corev1.Container{{
			Name:                     "main",
			Image:                    "image:v1",
			Command:                  []string{"/program"},
			Args:                     []string{"--dir=/data"},
			TerminationMessagePath:   corev1.TerminationMessagePathDefault,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			ImagePullPolicy:          corev1.PullIfNotPresent,
			VolumeMounts:             []corev1.VolumeMount{{Name: "empty", MountPath: "/data"}},
			Resources:                corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
		}},
	}}
}

// HollowHost is a toleration that means nothing to the podhost.
const HollowHost = "hollowfleet.io/hollow-host"

func main(pod *corev1.Pod) *corev1.Container { return &pod.Spec.Containers[0] }

func security(pod *corev1.Pod) *corev1.SecurityContext {
	if main(pod).SecurityContext == nil {
		main(pod).SecurityContext = &corev1.SecurityContext{}
	}
	return main(pod).SecurityContext
}

func TestPlainPodIsAccepted(t *testing.T) {
	for _, host := range []HostUser{root, user} {
		if refusals := Check(plain(), host); len(refusals) > 0 {
			t.Errorf("by %+v: %s", host, refusals)
		}
	}
}

// The pods of hollow nodes look like this.
func TestHollowNodePodIsAccepted(t *testing.T) {
	pod := plain()
	pod.Spec.AutomountServiceAccountToken = ptr.To(false)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	main(pod).SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	main(pod).ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz"}}}
	for _, host := range []HostUser{root, user} {
		if refusals := Check(pod, host); len(refusals) > 0 {
			t.Errorf("by %+v: %s", host, refusals)
		}
	}
}

// Claim: Unsupported fields are refused. Broken: limits accepted.
func TestRefusals(t *testing.T) {
	for field, change := range map[string]func(*corev1.Pod){
		"spec.hostNetwork":                    func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"spec.hostPID":                        func(p *corev1.Pod) { p.Spec.HostPID = true },
		"spec.hostIPC":                        func(p *corev1.Pod) { p.Spec.HostIPC = true },
		"spec.hostUsers":                      func(p *corev1.Pod) { p.Spec.HostUsers = ptr.To(false) },
		"spec.shareProcessNamespace":          func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = ptr.To(true) },
		"spec.runtimeClassName":               func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To("gvisor") },
		"spec.hostname":                       func(p *corev1.Pod) { p.Spec.Hostname = "h" },
		"spec.dnsPolicy":                      func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSNone },
		"spec.dnsConfig":                      func(p *corev1.Pod) { p.Spec.DNSConfig = &corev1.PodDNSConfig{} },
		"spec.hostAliases":                    func(p *corev1.Pod) { p.Spec.HostAliases = make([]corev1.HostAlias, 1) },
		"spec.activeDeadlineSeconds":          func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) },
		"spec.readinessGates":                 func(p *corev1.Pod) { p.Spec.ReadinessGates = make([]corev1.PodReadinessGate, 1) },
		"spec.ephemeralContainers":            func(p *corev1.Pod) { p.Spec.EphemeralContainers = make([]corev1.EphemeralContainer, 1) },
		"spec.resourceClaims":                 func(p *corev1.Pod) { p.Spec.ResourceClaims = make([]corev1.PodResourceClaim, 1) },
		"spec.os":                             func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} },
		"spec.resources.limits":               func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Limits: limits()} },
		"spec.securityContext.sysctls":        func(p *corev1.Pod) { p.Spec.SecurityContext.Sysctls = make([]corev1.Sysctl, 1) },
		"spec.securityContext.fsGroup":        func(p *corev1.Pod) { p.Spec.SecurityContext.FSGroup = ptr.To[int64](1) },
		"spec.securityContext.seLinuxOptions": func(p *corev1.Pod) { p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{} },
		"spec.securityContext.seccompProfile.type": func(p *corev1.Pod) {
			p.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}
		},
		"spec.containers[0].command":                func(p *corev1.Pod) { main(p).Command = nil },
		"spec.containers[0].stdin":                  func(p *corev1.Pod) { main(p).Stdin = true },
		"spec.containers[0].tty":                    func(p *corev1.Pod) { main(p).TTY = true },
		"spec.containers[0].lifecycle":              func(p *corev1.Pod) { main(p).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}} },
		"spec.containers[0].terminationMessagePath": func(p *corev1.Pod) { main(p).TerminationMessagePath = "/other" },
		"spec.containers[0].resources.limits":       func(p *corev1.Pod) { main(p).Resources.Limits = limits() },
		"spec.containers[0].ports[0].hostPort":      func(p *corev1.Pod) { main(p).Ports = []corev1.ContainerPort{{HostPort: 1, ContainerPort: 1}} },
		"spec.containers[0].volumeDevices":          func(p *corev1.Pod) { main(p).VolumeDevices = make([]corev1.VolumeDevice, 1) },
		"spec.containers[0].env[0].valueFrom.fileKeyRef": func(p *corev1.Pod) {
			main(p).Env = []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}}}
		},
		"spec.containers[0].securityContext.privileged":             func(p *corev1.Pod) { security(p).Privileged = ptr.To(true) },
		"spec.containers[0].securityContext.readOnlyRootFilesystem": func(p *corev1.Pod) { security(p).ReadOnlyRootFilesystem = ptr.To(true) },
		"spec.containers[0].securityContext.procMount":              func(p *corev1.Pod) { security(p).ProcMount = ptr.To(corev1.UnmaskedProcMount) },
		"spec.containers[0].securityContext.capabilities.add": func(p *corev1.Pod) {
			security(p).Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}
		},
		"spec.containers[0].securityContext.capabilities.drop": func(p *corev1.Pod) {
			security(p).Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"KILL"}}
		},
		"spec.containers[0].securityContext":             func(p *corev1.Pod) { security(p).RunAsUser, security(p).RunAsNonRoot = ptr.To[int64](0), ptr.To(true) },
		"spec.containers[0].volumeMounts[0].readOnly":    func(p *corev1.Pod) { main(p).VolumeMounts[0].ReadOnly = true },
		"spec.containers[0].volumeMounts[0].subPathExpr": func(p *corev1.Pod) { main(p).VolumeMounts[0].SubPathExpr = "$(X)" },
		"spec.containers[0].volumeMounts[0].mountPropagation": func(p *corev1.Pod) {
			main(p).VolumeMounts[0].MountPropagation = ptr.To(corev1.MountPropagationBidirectional)
		},
		"spec.containers[0].volumeMounts[0].name":      func(p *corev1.Pod) { main(p).VolumeMounts[0].Name = "other" },
		"spec.containers[0].volumeMounts[0].mountPath": func(p *corev1.Pod) { main(p).Args = []string{"--dir=/database"} },
		"spec.containers[0].livenessProbe.grpc.mode":   func(p *corev1.Pod) { main(p).LivenessProbe = grpcTLS() },
		"spec.initContainers[0].restartPolicy": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Command: []string{"x"}, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		},
		"spec.initContainers[0].command":                          func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "init"}} },
		"spec.volumes[0].hostPath":                                source(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"spec.volumes[0].persistentVolumeClaim":                   source(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
		"spec.volumes[0].csi":                                     source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}),
		"spec.volumes[0].emptyDir.medium":                         source(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}),
		"spec.volumes[0].emptyDir.sizeLimit":                      source(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Gi"))}}),
		"spec.volumes[0].secret.items[0].user":                    source(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{Items: []corev1.KeyToPath{{User: ptr.To[int64](1)}}}}),
		"spec.volumes[0].projected.sources[0].clusterTrustBundle": source(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}}}}),
	} {
		pod := plain()
		change(pod)
		refusals := Check(pod, root)
		if len(refusals) != 1 || refusals[0].Field != field || refusals[0].Reason == "" {
			t.Errorf("%s: the refusals are %q", field, refusals)
		}
	}
}

func TestServiceAccountTokenNobodyReadsNamesTheRemedy(t *testing.T) {
	pod := plain()
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
	}}})
	main(pod).VolumeMounts = append(main(pod).VolumeMounts, corev1.VolumeMount{Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true})
	if text := Check(pod, root).String(); !strings.Contains(text, "automountServiceAccountToken: false") {
		t.Errorf("the refusals %q do not name the remedy", text)
	}
	main(pod).Env = []corev1.EnvVar{{Name: "TOKEN", Value: "/var/run/secrets/kubernetes.io/serviceaccount/token"}}
	if refusals := Check(pod, root); len(refusals) > 0 {
		t.Errorf("a token that is mentioned is refused: %s", refusals)
	}
}

func TestIdentity(t *testing.T) {
	id := ptr.To[int64]
	for name, test := range map[string]struct {
		host    HostUser
		pod     corev1.PodSecurityContext
		context corev1.SecurityContext
		want    string
	}{
		"root, nothing said":                  {root, corev1.PodSecurityContext{}, corev1.SecurityContext{}, "own"},
		"root, a user":                        {root, corev1.PodSecurityContext{RunAsUser: id(12)}, corev1.SecurityContext{}, "12:12"},
		"root, user and group":                {root, corev1.PodSecurityContext{RunAsUser: id(12), RunAsGroup: id(13)}, corev1.SecurityContext{}, "12:13"},
		"root, the container wins":            {root, corev1.PodSecurityContext{RunAsUser: id(12)}, corev1.SecurityContext{RunAsUser: id(14)}, "14:14"},
		"root, not root":                      {root, corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, corev1.SecurityContext{}, "65532:65532"},
		"root, not root but root":             {root, corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: id(0)}, corev1.SecurityContext{}, "error"},
		"root, only a group":                  {root, corev1.PodSecurityContext{RunAsGroup: id(13)}, corev1.SecurityContext{}, "0:13"},
		"user, nothing said":                  {user, corev1.PodSecurityContext{}, corev1.SecurityContext{}, "own"},
		"user, itself":                        {user, corev1.PodSecurityContext{RunAsUser: id(1000), RunAsGroup: id(1000)}, corev1.SecurityContext{}, "own"},
		"user, another":                       {user, corev1.PodSecurityContext{RunAsUser: id(12)}, corev1.SecurityContext{}, "error"},
		"user, another group":                 {user, corev1.PodSecurityContext{RunAsGroup: id(12)}, corev1.SecurityContext{}, "error"},
		"user, another that must not be root": {user, corev1.PodSecurityContext{RunAsUser: id(12), RunAsGroup: id(12), RunAsNonRoot: ptr.To(true)}, corev1.SecurityContext{}, "own"},
		"user, root":                          {user, corev1.PodSecurityContext{RunAsUser: id(0)}, corev1.SecurityContext{}, "error"},
		"user, not root but root":             {user, corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, corev1.SecurityContext{RunAsUser: id(0)}, "error"},
	} {
		pod := plain()
		pod.Spec.SecurityContext = &test.pod
		main(pod).SecurityContext = &test.context
		identity, err := Identity(pod, main(pod), test.host)
		got := "own"
		switch {
		case err != nil:
			got = "error"
		case identity.SwitchUser:
			got = strings.Join([]string{number(identity.UID), number(identity.GID)}, ":")
		}
		if got != test.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, test.want)
		}
		if refused := len(Check(pod, test.host)) > 0; refused != (test.want == "error") {
			t.Errorf("%s: refused is %v", name, refused)
		}
	}
}

// Every field of the API must be listed knowingly, so that a new version of it
// makes this test fail instead of letting a field be ignored.
func TestEveryFieldIsListed(t *testing.T) {
	listed := make(map[reflect.Type]bool)
	var walk func(reflect.Type)
	walk = func(kind reflect.Type) {
		if listed[kind] {
			return
		}
		listed[kind] = true
		rules := tables[kind]
		if rules == nil {
			t.Errorf("%s has no table", kind)
			return
		}
		for i := range kind.NumField() {
			field := kind.Field(i)
			apply, known := rules[field.Name]
			if !known {
				t.Errorf("%s.%s is not listed", kind, field.Name)
				continue
			}
			if reflect.ValueOf(apply).Pointer() == reflect.ValueOf(inside).Pointer() {
				walk(element(field.Type))
			}
		}
		for name := range rules {
			if _, exists := kind.FieldByName(name); !exists {
				t.Errorf("%s has no field %s any more", kind, name)
			}
		}
	}
	walk(reflect.TypeFor[corev1.PodSpec]())
	for kind := range tables {
		if !listed[kind] {
			t.Errorf("the table of %s is not used", kind)
		}
	}
}

// A struct that grew a field which no table lists is refused at run time too.
// Claim: Newer fields are refused. Broken: unknown fields ignored.
func TestUnknownFieldIsRefused(t *testing.T) {
	kind := reflect.TypeFor[corev1.PodSpec]()
	saved := tables[kind]["NodeSelector"]
	delete(tables[kind], "NodeSelector")
	defer func() { tables[kind]["NodeSelector"] = saved }()
	pod := plain()
	if refusals := Check(pod, root); len(refusals) > 0 {
		t.Errorf("unset, it is refused: %s", refusals)
	}
	pod.Spec.NodeSelector = map[string]string{"a": "b"}
	if refusals := Check(pod, root); len(refusals) != 1 || refusals[0].Field != "spec.nodeSelector" {
		t.Errorf("set, the refusals are %q", refusals)
	}
}

func element(kind reflect.Type) reflect.Type {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	return kind
}

func limits() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
}

func grpcTLS() *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1, Mode: ptr.To(corev1.GRPCProbeModeTLS)}}}
}

func source(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Volumes[0].VolumeSource = source }
}

func number(n int) string { return strconv.Itoa(n) }
