package controlplane

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// clusterCIDR is where pods have their addresses. Nothing listens on one. It
	// is reserved, so that what is sent to one reaches no machine: see
	// docs/design/nodes.md. earlierCIDR is that of
	// clusters which were made before: Nodes keep their part of it.
	clusterCIDR = "240.0.0.0/8"
	earlierCIDR = "10.0.0.0/8"
	nodeMask    = "24"

	// etcdQuota is how large the database may become, 8 GiB. At a start it is
	// defragmented if that frees at least etcdDefragMegabytes.
	etcdQuota           = "8589934592"
	etcdDefragMegabytes = "64"

	serviceRange    = "172.30.0.0/16"
	serviceIssuer   = "https://kubernetes.default.svc.cluster.local"
	signingDuration = "8760h"
	// nodeMonitorPeriod is how far the node controller may be behind the
	// Nodes, 5s elsewhere. A pod that it finds Ready on a Node that it
	// remembers as not Ready is marked as not Ready too: see
	// docs/design/nodes.md.
	nodeMonitorPeriod = "1s"
)

// controllers are what a cluster of hollow nodes needs. Controllers that attach
// or make storage, and those for cloud providers, are left out: each
// one costs watches, memory and requests in every cluster. Those for volumes
// bind claims to volumes that were made by hand or by the agent, say of other
// claims what is missing, and let volumes and claims be deleted.
var controllers = []string{
	"certificatesigningrequest-approving-controller",
	"certificatesigningrequest-cleaner-controller",
	"certificatesigningrequest-signing-controller",
	"clusterrole-aggregation-controller",
	"cronjob-controller",
	"daemonset-controller",
	"deployment-controller",
	"device-taint-eviction-controller",
	"disruption-controller",
	"endpointslice-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"node-ipam-controller",
	"node-lifecycle-controller",
	"persistentvolume-binder-controller",
	"persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller",
	"pod-garbage-collector-controller",
	"replicaset-controller",
	"resourceclaim-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"service-cidr-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"statefulset-controller",
	"taint-eviction-controller",
	"token-cleaner-controller",
	"ttl-after-finished-controller",
	"validatingadmissionpolicy-status-controller",
}

// autoscalerController asks for the metrics of pods, which metrics-server has.
const autoscalerController = "horizontal-pod-autoscaler-controller"

// flagSource is what the components' flags are made from.
type flagSource struct {
	layout     Layout
	cluster    state
	identities identityFiles
	runDir     string
	ports      map[string]int
	fsync      bool
	// aggregation lets the API server pass requests on to others, such as metrics-server, and runs the controller that asks that one.
	aggregation bool
	// podhostNode is the name of the podhost's Node.
	podhostNode string
}

// commandLine returns the command line of a component that emulates a Kubernetes minor, empty for that of the code, the extra flags included.
func (s flagSource) commandLine(component, minor string, extra []string) []string {
	var flags []string
	switch component {
	case Etcd:
		flags = s.etcdFlags()
	case APIServer:
		flags = s.apiServer()
	case ControllerManager:
		flags = s.controllerManager()
	case Scheduler:
		flags = s.schedulerFlags()
	case Podhost:
		flags = s.podhostFlags()
	}
	if minor != "" && component != Etcd && component != Podhost {
		flags = append(flags, "emulated-version="+minor)
	}
	return mergeFlags(flags, extra)
}

func (s flagSource) etcdFlags() []string {
	return []string{
		"data-dir=" + s.layout.etcdDir(),
		"socket-dir=" + s.runDir,
		"unsafe-no-fsync=" + strconv.FormatBool(!s.fsync),
		"log-level=warn",
		"quota-backend-bytes=" + etcdQuota,
		"bootstrap-defrag-threshold-megabytes=" + etcdDefragMegabytes,
		// A member that is alone keeps no history for followers.
		"snapshot-count=2000",
		"snapshot-catchup-entries=100",
		"max-snapshots=2",
		"max-wals=2",
		"enable-grpc-gateway=false",
		// What is not in the database yet is in the log, and Leases alone would have it written ten times a second.
		"backend-batch-interval=1s",
	}
}

func (s flagSource) apiServer() []string {
	ca, _ := s.identities.caPaths()
	kubeletCertificate, kubeletKey := s.identities.servingPaths(kubeletClient)
	flags := append(s.servingFlags(APIServer, s.cluster.Listen), s.frontProxyFlags()...)
	return append(flags,
		"etcd-servers=unix://"+filepath.Join(s.runDir, etcdSocket),
		// The endpoints of the "kubernetes" Service may not be loopback
		// addresses, so no controller writes any.
		"endpoint-reconciler-type=none",
		"advertise-address="+s.cluster.serverAddress(),
		"client-ca-file="+ca,
		"authorization-mode=Node,RBAC",
		"enable-admission-plugins=NodeRestriction",
		"enable-bootstrap-token-auth=true",
		"allow-privileged=true",
		"service-cluster-ip-range="+serviceRange,
		"service-account-issuer="+serviceIssuer,
		"service-account-key-file="+s.layout.pkiPath("sa.pub"),
		"service-account-signing-key-file="+s.layout.pkiPath("sa.key"),
		"kubelet-client-certificate="+kubeletCertificate,
		"kubelet-client-key="+kubeletKey,
		// Only Nodes that serve the kubelet's API have an address of this type: podhosts, and
		// hollow Nodes if they are told to. With any other type a request for the logs of a
		// hollow pod would be sent to an address that is made up.
		"kubelet-preferred-address-types=InternalDNS",
		"max-requests-inflight=200",
		"max-mutating-requests-inflight=100",
		"event-ttl=1h",
		// There is no other API server to pass requests on to, and looking for
		// one costs a write every ten seconds.
		"feature-gates=UnknownVersionInteroperabilityProxy=false",
	)
}

// frontProxyFlags let an APIService's server, such as metrics-server, know its users.
func (s flagSource) frontProxyFlags() []string {
	if !s.aggregation {
		return nil
	}
	return []string{
		"requestheader-client-ca-file=" + s.layout.pkiPath(frontProxyCA+".crt"),
		"requestheader-allowed-names=" + frontProxyClient,
		"requestheader-username-headers=X-Remote-User",
		"requestheader-group-headers=X-Remote-Group",
		"requestheader-extra-headers-prefix=X-Remote-Extra-",
		"proxy-client-cert-file=" + s.layout.pkiPath(frontProxyClient+".crt"),
		"proxy-client-key-file=" + s.layout.pkiPath(frontProxyClient+".key"),
	}
}

func (s flagSource) controllerManager() []string {
	ca, caKey := s.identities.caPaths()
	flags := append(s.servingFlags(ControllerManager, loopback.String()), s.clientFlags(ControllerManager)...)
	wanted := controllers
	if s.aggregation {
		wanted = append(slices.Clone(controllers), autoscalerController)
	}
	return append(flags,
		"controllers="+strings.Join(wanted, ","),
		"use-service-account-credentials=true",
		"root-ca-file="+ca,
		"service-account-private-key-file="+s.layout.pkiPath("sa.key"),
		"cluster-name="+s.cluster.Name,
		"cluster-signing-cert-file="+ca,
		"cluster-signing-key-file="+caKey,
		"cluster-signing-duration="+signingDuration,
		"allocate-node-cidrs=true",
		"cluster-cidr="+s.cluster.PodCIDR,
		"node-cidr-mask-size="+nodeMask,
		"node-monitor-period="+nodeMonitorPeriod,
		"service-cluster-ip-range="+serviceRange,
		"concurrent-deployment-syncs=2",
		"concurrent-replicaset-syncs=2",
		"concurrent-statefulset-syncs=2",
		"concurrent-daemonset-syncs=2",
		"concurrent-job-syncs=2",
		"concurrent-service-endpoint-syncs=2",
		"concurrent-resource-quota-syncs=2",
		"concurrent-namespace-syncs=4",
		"concurrent-gc-syncs=5",
	)
}

func (s flagSource) schedulerFlags() []string {
	return append(s.servingFlags(Scheduler, loopback.String()), s.clientFlags(Scheduler)...)
}

func (s flagSource) podhostFlags() []string {
	return []string{
		"node-name=" + s.podhostNode,
		"kubeconfig=" + s.layout.kubeconfigPath(Podhost),
		"data-dir=" + s.layout.podhostDir(),
		"health-socket=" + filepath.Join(s.runDir, podhostSocket),
	}
}

// servingFlags are the flags of a component's own port. The port is held by a
// reservation of the supervisor, which sharing makes room for.
func (s flagSource) servingFlags(component, address string) []string {
	certificate, key := s.identities.servingPaths(component)
	return []string{
		"bind-address=" + address,
		"secure-port=" + strconv.Itoa(s.ports[component]),
		"permit-port-sharing=true",
		"tls-cert-file=" + certificate,
		"tls-private-key-file=" + key,
		"profiling=false",
	}
}

// clientFlags are the flags of a component that uses the API server. It is the only
// one of its kind, so it need not be elected.
func (s flagSource) clientFlags(component string) []string {
	ca, _ := s.identities.caPaths()
	kubeconfig := s.layout.kubeconfigPath(component)
	return []string{
		"kubeconfig=" + kubeconfig,
		"authentication-kubeconfig=" + kubeconfig,
		"authorization-kubeconfig=" + kubeconfig,
		"client-ca-file=" + ca,
		// All that a look-up could find is given above.
		"authentication-skip-lookup=true",
		"leader-elect=false",
		"kube-api-qps=100",
		"kube-api-burst=200",
	}
}

// mergeFlags returns the flags as a command line. A flag in extra replaces all
// of the same name; several in extra are all kept.
func mergeFlags(flags, extra []string) []string {
	replaced := map[string]bool{}
	for _, flag := range extra {
		replaced[flagName(flag)] = true
	}
	kept := slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return replaced[flagName(flag)] })
	line := make([]string, 0, len(kept)+len(extra))
	for _, flag := range append(kept, extra...) {
		line = append(line, "--"+strings.TrimLeft(flag, "-"))
	}
	return line
}

func flagName(flag string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	return name
}

// validateExtraArgs wants key=value, because the components take nothing else.
func validateExtraArgs(extra map[string][]string) error {
	for component, flags := range extra {
		for _, flag := range flags {
			if _, _, ok := strings.Cut(flag, "="); !ok || flagName(flag) == "" {
				return fmt.Errorf("%w: extra argument %q of %s is not key=value", ErrInvalid, flag, component)
			}
		}
	}
	return nil
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
