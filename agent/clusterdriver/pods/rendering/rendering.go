// Package rendering says which objects of a Kubernetes cluster make a simulated cluster as a pod. It only computes them.
//
// A simulated cluster has a namespace of its own, and in it a StatefulSet with one pod: the control plane as a sidecar container, and the
// agent, which ends before it. This is the form of the chart simcluster, with both kinds of PKI in the same Secrets, so that the pod does
// not depend on who makes the certificates.
package rendering

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What objects are called, and how they say whose they are.
const (
	// Name is that of every object that there is one of.
	Name = "simcluster"
	// PodName is that of the only pod of the StatefulSet.
	PodName = Name + "-0"
	// namespacePrefix keeps the namespaces apart from those of others. With a name of maxName it stays below 63 characters.
	namespacePrefix = "simulated-"
	// MaxName is how long the name of a simulated cluster may be: the program simcluster makes names of Nodes of it.
	MaxName = 45

	// UIDLabel on every object that the driver made has the UID of the SimulatedCluster. The policy hollowfleet-simulated-clusters knows
	// the namespaces by it.
	UIDLabel = "hollowfleet.io/simulated-cluster-uid"
	// HostLabel on the namespace has the Cluster that hosts the simulated cluster.
	HostLabel = "hollowfleet.io/simulated-cluster-host"
	// NameAnnotation on every object that the driver made has the name of the SimulatedCluster.
	NameAnnotation = "hollowfleet.io/simulated-cluster-name"
	// CertificatesAnnotation on the namespace says who makes the certificates. It stays as it is: clients trust one authority.
	CertificatesAnnotation = "hollowfleet.io/certificates"
	// VersionAnnotation on the StatefulSet has the control plane's version that was asked for last, in full. It is what VersionKey has, and
	// alone in clusters that were made before there was a VersionMap.
	VersionAnnotation = "hollowfleet.io/control-plane-version"

	// ControlPlaneContainer and AgentContainer are the containers of the pod.
	ControlPlaneContainer, AgentContainer = "simcluster", "agent"
	// APIServerPort is the API server's.
	APIServerPort = 6443

	// CredentialSecret has the agent's credential for the hub; KubeconfigKey is the key of a kubeconfig.
	CredentialSecret = "hub-credential"
	// KubeconfigsMap has where the agent finds hub, target and host, and ManifestsMap its rights in the simulated cluster.
	KubeconfigsMap, ManifestsMap = Name + "-kubeconfigs", Name + "-manifests"
	// VersionMap has the version of the control plane under VersionKey, and its minor, which simcluster reads, under emulatedVersionKey. The
	// pod stays when it changes.
	VersionMap, VersionKey, emulatedVersionKey = Name + "-version", "version", "emulated-version"

	// HostRole is the ClusterRole that the host's agent has in the namespace, and AgentRole that of the cluster's own agent.
	HostRole, AgentRole = "hollowfleet-simulated-cluster", "hollowfleet-simulated-cluster-agent"
	// HostBinding binds HostRole.
	HostBinding = "hollowfleet-host"
)

// Settings are the same for all simulated clusters of a host.
type Settings struct {
	// Host is the Cluster that hosts them. AgentNamespace and AgentAccount are those of its agent in this cluster.
	Host, AgentNamespace, AgentAccount string
	// SimclusterImage, AgentImage and HollowNodeImage are images.
	SimclusterImage, AgentImage, HollowNodeImage string
	// HollowNodeMinorImages are those of hollow nodes with the kubelet code of other minors, by minor.
	HollowNodeMinorImages map[string]string
	// StorageSize is that of a control plane's volume, StorageClass its class; empty for the cluster's default.
	StorageSize  resource.Quantity
	StorageClass string
	// Quota bounds what each namespace takes. Empty: there is none.
	Quota corev1.ResourceList
	// FreezeAfter and CertificateLifetime are flags of the agents.
	FreezeAfter, CertificateLifetime time.Duration
	// Manifests are what each simulated cluster has from its start: file names and contents.
	Manifests map[string]string
}

// Cluster is one simulated cluster.
type Cluster struct {
	// Name and UID are the SimulatedCluster's.
	Name, UID string
	// Version is that of its control plane, such as v1.36; EmulatedVersion is the minor that simcluster gets for it, such as 1.36.
	Version, EmulatedVersion string
	// Resources are what is asked for its control plane.
	Resources corev1.ResourceRequirements
	// Certificates say who makes them.
	Certificates PKI
	// HubServer is the hub's URL, HubKubeconfig a kubeconfig without a credential for it.
	HubServer     string
	HubKubeconfig []byte
	// Claims are the volume claim templates that the StatefulSet has already: they cannot be changed. Nil for a new one.
	Claims []corev1.PersistentVolumeClaim
}

// PKI says who makes the certificates of a cluster.
type PKI string

// Who makes certificates.
const (
	// CertManager makes and renews them, with an authority of the cluster's own.
	CertManager PKI = "certManager"
	// SelfSigned: the driver does.
	SelfSigned PKI = "selfSigned"
)

// NamespaceOf is the namespace of a simulated cluster.
func NamespaceOf(name string) string { return namespacePrefix + name }

// ServerName is the name of its API server in the host cluster.
func ServerName(name string) string { return Name + "." + NamespaceOf(name) + ".svc" }

// meta is the metadata of an object that the driver makes.
func (c Cluster) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: NamespaceOf(c.Name), Name: name, Labels: c.labels(), Annotations: map[string]string{NameAnnotation: c.Name},
	}
}

func (c Cluster) labels() map[string]string {
	labels := c.selector()
	labels[UIDLabel] = c.UID
	return labels
}

// selector selects the pod of the control plane, and no hollow node.
func (c Cluster) selector() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "hollowfleet-simcluster", "app.kubernetes.io/part-of": "hollowfleet"}
}

// Namespace is the namespace, with the record of what stays as it is.
func (s Settings) Namespace(c Cluster) *corev1.Namespace {
	made := c.meta(NamespaceOf(c.Name))
	made.Namespace = ""
	made.Labels[HostLabel] = s.Host
	for _, mode := range []string{"enforce", "warn", "audit"} {
		made.Labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	made.Annotations[CertificatesAnnotation] = string(c.Certificates)
	return &corev1.Namespace{TypeMeta: typeOf("v1", "Namespace"), ObjectMeta: made}
}

// HostBinding gives the host's agent its rights in the namespace. It is created before anything else.
func (s Settings) HostBinding(c Cluster) *rbacv1.RoleBinding {
	return s.binding(c, HostBinding, HostRole, rbacv1.Subject{Kind: "ServiceAccount", Namespace: s.AgentNamespace, Name: s.AgentAccount})
}

func (s Settings) binding(c Cluster, name, role string, subject rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: typeOf("rbac.authorization.k8s.io/v1", "RoleBinding"), ObjectMeta: c.meta(name),
		RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
	}
}

// Objects are all others in the order in which they are applied, but for Secrets. The StatefulSet is the last.
func (s Settings) Objects(c Cluster) ([]client.Object, error) {
	kubeconfigs, err := s.newKubeconfigs(c)
	if err != nil {
		return nil, err
	}
	policy, err := s.networkPolicy(c)
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	if len(s.Quota) > 0 {
		objects = append(objects, &corev1.ResourceQuota{
			TypeMeta: typeOf("v1", "ResourceQuota"), ObjectMeta: c.meta(Name), Spec: corev1.ResourceQuotaSpec{Hard: s.Quota},
		})
	}
	objects = append(objects,
		policy,
		&corev1.ServiceAccount{TypeMeta: typeOf("v1", "ServiceAccount"), ObjectMeta: c.meta(Name)},
		s.binding(c, Name, AgentRole, rbacv1.Subject{Kind: "ServiceAccount", Namespace: NamespaceOf(c.Name), Name: Name}),
		&corev1.ConfigMap{TypeMeta: typeOf("v1", "ConfigMap"), ObjectMeta: c.meta(ManifestsMap), Data: s.Manifests},
		&corev1.ConfigMap{TypeMeta: typeOf("v1", "ConfigMap"), ObjectMeta: c.meta(KubeconfigsMap), Data: kubeconfigs},
		&corev1.ConfigMap{
			TypeMeta: typeOf("v1", "ConfigMap"), ObjectMeta: c.meta(VersionMap),
			Data: map[string]string{VersionKey: c.Version, emulatedVersionKey: c.EmulatedVersion},
		},
		s.service(c),
	)
	if c.Certificates == CertManager {
		objects = append(objects, c.certManagerObjects()...)
	}
	return append(objects, s.statefulSet(c)), nil
}

func (s Settings) service(c Cluster) *corev1.Service {
	return &corev1.Service{
		TypeMeta: typeOf("v1", "Service"), ObjectMeta: c.meta(Name),
		Spec: corev1.ServiceSpec{
			// Hollow nodes continue while the agent beside the API server is not ready.
			Selector: c.selector(), PublishNotReadyAddresses: true,
			Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: APIServerPort, TargetPort: intstr.FromString("https")}},
		},
	}
}

// networkPolicy is for all pods of the namespace. The API server is for them and for the host's agent. Out they reach name servers, and
// any address at the ports of API servers, which a policy cannot name: their addresses are not those of pods.
func (s Settings) networkPolicy(c Cluster) (*networkingv1.NetworkPolicy, error) {
	ports := []int{443, APIServerPort}
	hub, err := url.Parse(c.HubServer)
	if err != nil {
		return nil, fmt.Errorf("reading the hub's URL: %w", err)
	}
	if text := hub.Port(); text != "" {
		port, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("reading the port of the hub's URL %q: %w", c.HubServer, err)
		}
		if port != 443 && port != APIServerPort {
			ports = append(ports, port)
		}
	}
	here := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}
	agent := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.AgentNamespace}}}
	return &networkingv1.NetworkPolicy{
		TypeMeta: typeOf("networking.k8s.io/v1", "NetworkPolicy"), ObjectMeta: c.meta(Name),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{Ports: tcpPorts(APIServerPort), From: []networkingv1.NetworkPolicyPeer{here, agent}},
				// The kubelet's probes, and metrics.
				{Ports: tcpPorts(healthPort, metricsPort)},
			},
			Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: tcpPorts(ports...)}, {Ports: append(tcpPorts(53), portOf(corev1.ProtocolUDP, 53))}},
		},
	}, nil
}

func tcpPorts(numbers ...int) (ports []networkingv1.NetworkPolicyPort) {
	for _, number := range numbers {
		ports = append(ports, portOf(corev1.ProtocolTCP, number))
	}
	return ports
}

func portOf(protocol corev1.Protocol, number int) networkingv1.NetworkPolicyPort {
	port := intstr.FromInt(number)
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &port}
}

func typeOf(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}
