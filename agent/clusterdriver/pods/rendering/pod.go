package rendering

import (
	"fmt"
	"maps"
	"path"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	healthPort, metricsPort = 8081, 8080
	// user is that of the images.
	user = 65532
	// graceSeconds are for the agent and then the control plane.
	graceSeconds = 60

	dataDir     = "/var/lib/simcluster"
	manifestDir = "/etc/simcluster/manifests"
	pkiDir      = "/etc/simcluster/pki"
	versionDir  = "/etc/simcluster/version"
	agentDir    = "/etc/hollowfleet/agent"
	configDir   = "/etc/hollowfleet/kubeconfigs"
	tokenDir    = "/var/run/secrets/kubernetes.io/serviceaccount"
)

func (s Settings) statefulSet(c Cluster) *appsv1.StatefulSet {
	made := c.meta(Name)
	made.Annotations[VersionAnnotation] = c.Version
	claims := c.Claims
	if claims == nil {
		claims = []corev1.PersistentVolumeClaim{s.newClaim(c)}
	}
	return &appsv1.StatefulSet{
		TypeMeta: typeOf("apps/v1", "StatefulSet"), ObjectMeta: made,
		Spec: appsv1.StatefulSetSpec{
			// One etcd member and one agent.
			Replicas: ptr.To[int32](1), ServiceName: Name, Selector: &metav1.LabelSelector{MatchLabels: c.selector()},
			// A pod that never was ready is replaced all the same when its template changes.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: c.labels(), Annotations: map[string]string{NameAnnotation: c.Name}},
				Spec:       s.newPod(c),
			},
			VolumeClaimTemplates: claims,
		},
	}
}

func (s Settings) newClaim(c Cluster) corev1.PersistentVolumeClaim {
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: c.labels(), Annotations: map[string]string{NameAnnotation: c.Name}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: s.StorageSize}},
		},
	}
	if s.StorageClass != "" {
		claim.Spec.StorageClassName = ptr.To(s.StorageClass)
	}
	return claim
}

func (s Settings) newPod(c Cluster) corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName: Name, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](graceSeconds),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user), FSGroup: ptr.To[int64](user),
			FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		// Hollow nodes run no containers.
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: v1alpha1.HollowNodeLabel, Operator: corev1.NodeSelectorOpDoesNotExist},
			}}},
		}}},
		InitContainers: []corev1.Container{s.controlPlane(c)},
		Containers:     []corev1.Container{s.agent(c)},
		Volumes:        volumes(c),
	}
}

// controlPlane is a sidecar: the agent starts when its startup probe has succeeded, and it continues.
func (s Settings) controlPlane(c Cluster) corev1.Container {
	arguments := []string{
		"start", "--name=" + c.Name, "--data-dir=" + path.Join(dataDir, "cluster"),
		// Its hollow nodes are pods of the cluster around it, so it needs no podhost.
		"--components=etcd,kube-apiserver,kube-controller-manager,kube-scheduler",
		"--listen=0.0.0.0", fmt.Sprintf("--apiserver-port=%d", APIServerPort), "--exit-with-parent=false", "--fsync=true",
		"--manifest=" + manifestDir, "--pki-dir=" + pkiDir,
		// A version is not in the template: it reaches the components one after the other, in the pod that runs.
		"--emulated-version-file=" + path.Join(versionDir, emulatedVersionKey),
	}
	return corev1.Container{
		Name: ControlPlaneContainer, Image: s.SimclusterImage, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Args: arguments,
		Ports:        []corev1.ContainerPort{{Name: "https", ContainerPort: APIServerPort, Protocol: corev1.ProtocolTCP}},
		StartupProbe: probe("/readyz", "https", 2, 5, 150), LivenessProbe: probe("/livez", "https", 10, 10, 12), ReadinessProbe: probe("/readyz", "https", 5, 5, 3),
		Resources: c.ControlPlaneResources(), SecurityContext: restricted(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: dataDir}, {Name: "tmp", MountPath: "/tmp"},
			{Name: "manifests", MountPath: manifestDir, ReadOnly: true}, {Name: "pki", MountPath: pkiDir, ReadOnly: true},
			{Name: "version", MountPath: versionDir, ReadOnly: true},
		},
	}
}

func (s Settings) agent(c Cluster) corev1.Container {
	namespace := NamespaceOf(c.Name)
	return corev1.Container{
		Name: AgentContainer, Image: s.AgentImage,
		Args: append([]string{
			"--cluster-name=" + c.Name,
			"--bootstrap-kubeconfig=" + path.Join(configDir, "hub"),
			"--credential-secret=" + namespace + "/" + CredentialSecret, "--credential-secret-cluster=host",
			"--certificate-lifetime=" + s.CertificateLifetime.String(),
			"--target-kubeconfig=" + path.Join(configDir, "target"), "--target-namespace=hollowfleet",
			fmt.Sprintf("--target-server-url=https://%s:%d", ServerName(c.Name), APIServerPort),
			"--host-kubeconfig=" + path.Join(configDir, "host"), "--host-namespace=" + namespace,
			"--hollow-node-image=" + s.HollowNodeImage, "--freeze-after=" + s.FreezeAfter.String(),
			fmt.Sprintf("--health-address=:%d", healthPort), fmt.Sprintf("--metrics-address=:%d", metricsPort),
			"--tls-cert-file=" + path.Join(agentDir, corev1.TLSCertKey), "--tls-private-key-file=" + path.Join(agentDir, corev1.TLSPrivateKeyKey),
			"--log-format=json",
		}, s.minorImages()...),
		Ports: []corev1.ContainerPort{
			{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP}, {Name: "metrics", ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP},
		},
		StartupProbe: probe("/healthz", "health", 2, 1, 60), LivenessProbe: probe("/healthz", "health", 10, 5, 6), ReadinessProbe: probe("/readyz", "health", 5, 5, 3),
		Resources: agentRequests, SecurityContext: restricted(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts: []corev1.VolumeMount{
			{Name: "kubeconfigs", MountPath: configDir, ReadOnly: true}, {Name: "agent", MountPath: agentDir, ReadOnly: true},
			{Name: "host-token", MountPath: tokenDir, ReadOnly: true},
		},
	}
}

// minorImages are the flags of an agent with the images of other minors, in their order.
func (s Settings) minorImages() []string {
	var flags []string
	for _, minor := range slices.Sorted(maps.Keys(s.HollowNodeMinorImages)) {
		flags = append(flags, "--hollow-node-minor-image="+minor+"="+s.HollowNodeMinorImages[minor])
	}
	return flags
}

func probe(path, port string, period, timeout, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port), Scheme: corev1.URISchemeHTTPS}},
		PeriodSeconds: period, TimeoutSeconds: timeout, FailureThreshold: failures,
	}
}

// restricted is what the Pod Security Standard of that name wants of a container.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func volumes(c Cluster) []corev1.Volume {
	var pki []corev1.VolumeProjection
	for _, each := range append([]Certificate{{Name: Authority}}, Certificates(c.Name)...) {
		if each.Name != agentCertificate {
			pki = append(pki, projectedPair(each.Name))
		}
	}
	return []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "manifests", VolumeSource: configMap(ManifestsMap)},
		{Name: "kubeconfigs", VolumeSource: configMap(KubeconfigsMap)},
		{Name: "version", VolumeSource: configMap(VersionMap)},
		{Name: "agent", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: SecretOf(agentCertificate)}}},
		{Name: "pki", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: pki}}},
		// The token is for the agent alone. It is what the kubelet mounts into all containers of a pod unless it is told not to.
		{Name: "host-token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3607)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
		}}}},
	}
}

func configMap(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

func projectedPair(certificate string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: SecretOf(certificate)},
		Items: []corev1.KeyToPath{
			{Key: corev1.TLSCertKey, Path: path.Join(certificate, corev1.TLSCertKey)},
			{Key: corev1.TLSPrivateKeyKey, Path: path.Join(certificate, corev1.TLSPrivateKeyKey)},
		},
	}}
}
