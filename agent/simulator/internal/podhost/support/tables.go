package support

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// Reasons that several fields share.
const (
	byScheduler  = "the scheduler acts on it"
	noPulling    = "images are directories and never pulled"
	noMounts     = "there is no mount namespace"
	noNamespaces = "processes share the namespaces of the machine"
	noSuchVolume = "volumes of this kind are not supported; use emptyDir, secret, configMap, downwardAPI or projected"
	noFileUsers  = "files are readable to the container's user; the user is not made their owner"
)

// tables holds a rule for every field of the structs of a pod's spec.
var tables map[reflect.Type]map[string]rule

// The tables refer to rules which refer to the tables.
func init() {
	tables = map[reflect.Type]map[string]rule{
		reflect.TypeFor[corev1.PodSpec]():                       podSpec,
		reflect.TypeFor[corev1.PodSecurityContext]():            podSecurityContext,
		reflect.TypeFor[corev1.Container]():                     container,
		reflect.TypeFor[corev1.SecurityContext]():               securityContext,
		reflect.TypeFor[corev1.Capabilities]():                  capabilities,
		reflect.TypeFor[corev1.SeccompProfile]():                seccompProfile,
		reflect.TypeFor[corev1.AppArmorProfile]():               appArmorProfile,
		reflect.TypeFor[corev1.ContainerPort]():                 containerPort,
		reflect.TypeFor[corev1.ResourceRequirements]():          resources,
		reflect.TypeFor[corev1.EnvVar]():                        envVar,
		reflect.TypeFor[corev1.EnvVarSource]():                  envVarSource,
		reflect.TypeFor[corev1.EnvFromSource]():                 envFromSource,
		reflect.TypeFor[corev1.Probe]():                         probe,
		reflect.TypeFor[corev1.ProbeHandler]():                  probeHandler,
		reflect.TypeFor[corev1.HTTPGetAction]():                 httpGet,
		reflect.TypeFor[corev1.GRPCAction]():                    grpcProbe,
		reflect.TypeFor[corev1.VolumeMount]():                   volumeMount,
		reflect.TypeFor[corev1.Volume]():                        volume,
		reflect.TypeFor[corev1.VolumeSource]():                  volumeSource,
		reflect.TypeFor[corev1.EmptyDirVolumeSource]():          emptyDir,
		reflect.TypeFor[corev1.SecretVolumeSource]():            secretVolume,
		reflect.TypeFor[corev1.ConfigMapVolumeSource]():         configMapVolume,
		reflect.TypeFor[corev1.DownwardAPIVolumeSource]():       downwardAPIVolume,
		reflect.TypeFor[corev1.DownwardAPIVolumeFile]():         downwardAPIFile,
		reflect.TypeFor[corev1.KeyToPath]():                     keyToPath,
		reflect.TypeFor[corev1.ProjectedVolumeSource]():         projectedVolume,
		reflect.TypeFor[corev1.VolumeProjection]():              projection,
		reflect.TypeFor[corev1.SecretProjection]():              objectProjection,
		reflect.TypeFor[corev1.ConfigMapProjection]():           objectProjection,
		reflect.TypeFor[corev1.DownwardAPIProjection]():         {"Items": inside},
		reflect.TypeFor[corev1.ServiceAccountTokenProjection](): tokenProjection,
	}
}

var podSpec = map[string]rule{
	"Volumes":                       inside,
	"InitContainers":                inside,
	"Containers":                    inside,
	"EphemeralContainers":           refused("ephemeral containers are not run"),
	"RestartPolicy":                 accepted,
	"TerminationGracePeriodSeconds": accepted,
	"ActiveDeadlineSeconds":         refused("no deadline is kept; set it on the Job"),
	"DNSPolicy":                     only("cannot be honoured: names are resolved as the machine does it", corev1.DNSClusterFirst, corev1.DNSDefault),
	"NodeSelector":                  without(byScheduler),
	"ServiceAccountName":            accepted,
	"DeprecatedServiceAccount":      accepted,
	"AutomountServiceAccountToken":  without("admission adds the volume, which has rules of its own"),
	"NodeName":                      accepted,
	"HostNetwork":                   refused("every pod has an address of its own"),
	"HostPID":                       refused(noNamespaces),
	"HostIPC":                       refused(noNamespaces),
	"ShareProcessNamespace":         refused(noNamespaces),
	"SecurityContext":               inside,
	"ImagePullSecrets":              without(noPulling),
	"Hostname":                      refused(noNamespaces),
	"Subdomain":                     refused(noNamespaces),
	"Affinity":                      without(byScheduler),
	"SchedulerName":                 without(byScheduler),
	"Tolerations":                   without(byScheduler),
	"HostAliases":                   refused("the machine's hosts file is used"),
	"PriorityClassName":             without(byScheduler),
	"Priority":                      without(byScheduler),
	"DNSConfig":                     refused("names are resolved as the machine does it"),
	"ReadinessGates":                refused("readiness depends on the containers only"),
	"RuntimeClassName":              refused("there is only this runtime"),
	"EnableServiceLinks":            accepted,
	"PreemptionPolicy":              without(byScheduler),
	"Overhead":                      refused("it belongs to a runtime class, and there is only this runtime"),
	"TopologySpreadConstraints":     without(byScheduler),
	"SetHostnameAsFQDN":             refused(noNamespaces),
	"OS":                            only("is not the operating system of this node", corev1.PodOS{Name: corev1.Linux}),
	"HostUsers":                     only("cannot be honoured: "+noNamespaces, true),
	"SchedulingGates":               without(byScheduler),
	"ResourceClaims":                refused("devices are not allocated"),
	"Resources":                     inside,
	"HostnameOverride":              refused(noNamespaces),
	"SchedulingGroup":               without(byScheduler),
	"EvictionResponders":            without("the eviction of a pod is not the node's work"),
}

var podSecurityContext = map[string]rule{
	"SELinuxOptions":           refused("labels are not set"),
	"WindowsOptions":           refused("this is not Windows"),
	"RunAsUser":                accepted, // see Identity
	"RunAsGroup":               accepted,
	"RunAsNonRoot":             accepted,
	"SupplementalGroups":       refused("processes get no supplementary groups"),
	"SupplementalGroupsPolicy": without("images do not define groups"),
	"FSGroup":                  refused(noFileUsers),
	"Sysctls":                  refused(noNamespaces),
	"FSGroupChangePolicy":      without("it has a meaning only together with fsGroup"),
	"SeccompProfile":           inside,
	"AppArmorProfile":          inside,
	"SELinuxChangePolicy":      without("it has a meaning only together with seLinuxOptions"),
}

var container = map[string]rule{
	"Name":                     accepted,
	"Image":                    accepted,
	"Command":                  accepted, // checkContainers requires it
	"Args":                     accepted,
	"WorkingDir":               accepted,
	"Ports":                    inside,
	"EnvFrom":                  inside,
	"Env":                      inside,
	"Resources":                inside,
	"ResizePolicy":             without("requests have no effect on a process, limits are refused"),
	"RestartPolicy":            refused("only the pod's restart policy is followed; there are no sidecar containers"),
	"RestartPolicyRules":       refused("only the pod's restart policy is followed"),
	"VolumeMounts":             inside,
	"VolumeDevices":            refused("there are no block volumes"),
	"LivenessProbe":            inside,
	"ReadinessProbe":           inside,
	"StartupProbe":             inside,
	"Lifecycle":                refused("hooks are not run and the stop signal is SIGTERM"),
	"TerminationMessagePath":   only("cannot be honoured: "+noMounts, corev1.TerminationMessagePathDefault),
	"TerminationMessagePolicy": without("nothing reads the file, which without a mount namespace would be one for the whole machine; FallbackToLogsOnError is honoured"),
	"ImagePullPolicy":          without(noPulling),
	"SecurityContext":          inside,
	"Stdin":                    refused("processes have no standard input"),
	"StdinOnce":                refused("processes have no standard input"),
	"TTY":                      refused("processes have no terminal"),
}

var securityContext = map[string]rule{
	"Capabilities":             inside,
	"Privileged":               refused("processes get no privileges"),
	"SELinuxOptions":           refused("labels are not set"),
	"WindowsOptions":           refused("this is not Windows"),
	"RunAsUser":                accepted, // see Identity
	"RunAsGroup":               accepted,
	"RunAsNonRoot":             accepted,
	"ReadOnlyRootFilesystem":   refused(noMounts),
	"AllowPrivilegeEscalation": accepted,
	"ProcMount":                only("cannot be honoured: "+noMounts, corev1.DefaultProcMount),
	"SeccompProfile":           inside,
	"AppArmorProfile":          inside,
}

var capabilities = map[string]rule{
	"Add":  refused("no capabilities are added"),
	"Drop": dropsAll,
}

// The runtime's default is the podhost's to define: it is unconfined.
var seccompProfile = map[string]rule{
	"Type":             only("profiles cannot be loaded", corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined),
	"LocalhostProfile": refused("profiles cannot be loaded"),
}

var appArmorProfile = map[string]rule{
	"Type":             only("profiles cannot be loaded", corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined),
	"LocalhostProfile": refused("profiles cannot be loaded"),
}

var containerPort = map[string]rule{
	"Name":          accepted,
	"HostPort":      refused("ports are not forwarded; use the pod's address"),
	"ContainerPort": accepted,
	"Protocol":      accepted,
	"HostIP":        refused("ports are not forwarded; use the pod's address"),
}

var resources = map[string]rule{
	"Limits":   refused("limits cannot be enforced on plain processes; set requests only"),
	"Requests": without(byScheduler),
	"Claims":   refused("devices are not allocated"),
}

var envVar = map[string]rule{
	"Name":      accepted,
	"Value":     accepted,
	"ValueFrom": inside,
}

var envVarSource = map[string]rule{
	"FieldRef":         accepted,
	"ResourceFieldRef": accepted,
	"ConfigMapKeyRef":  accepted,
	"SecretKeyRef":     accepted,
	"FileKeyRef":       refused("variables are not read from files"),
}

var envFromSource = map[string]rule{
	"Prefix":       accepted,
	"ConfigMapRef": accepted,
	"SecretRef":    accepted,
}

var probe = map[string]rule{
	"ProbeHandler":                  inside,
	"InitialDelaySeconds":           accepted,
	"TimeoutSeconds":                accepted,
	"PeriodSeconds":                 accepted,
	"SuccessThreshold":              accepted,
	"FailureThreshold":              accepted,
	"TerminationGracePeriodSeconds": accepted,
}

var probeHandler = map[string]rule{
	"Exec":      accepted,
	"HTTPGet":   inside,
	"TCPSocket": accepted,
	"GRPC":      inside,
}

var httpGet = map[string]rule{
	"Path":        accepted,
	"Port":        accepted,
	"Host":        accepted,
	"Scheme":      accepted,
	"HTTPHeaders": accepted,
	"Protocol":    only("is not spoken by probes", corev1.HTTPProtocolHTTP1),
}

var grpcProbe = map[string]rule{
	"Port":    accepted,
	"Service": accepted,
	"Mode":    only("is not spoken by probes", corev1.GRPCProbeModePlaintext),
}
