// Package agent is the agent of one workload cluster: it makes the cluster's Machines, which stand on the hub,
// real. Run does all of it; cmd/agent only parses its options.
//
// On the hub an agent reads its own Cluster, and Machines, MachineClasses and SimulatedClusters of its own namespace; it
// writes spec.providerID, finalizer and status of Machines, finalizer and part of the status of SimulatedClusters, its Lease,
// its part of the Cluster's status, and events. With a token of its ServiceAccount as its credential it asks for the next one.
//
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,resourceNames=hollowfleet-agent,verbs=create
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines,verbs=get;list;watch;patch;update
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machineclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=nodedisruptionruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=nodedisruptionruns/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=loadtestruns,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=loadtestruns/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=simulatedclusters/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinelogrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinelogrequests/status,verbs=patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=hollowfleet-agent,verbs=get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
package agent

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/agent/driver/kwok"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// Defaults of Options.
const (
	DefaultNamespace           = "hollowfleet"
	DefaultHollowNodeImage     = "hollowfleet/hollow-node"
	DefaultFreezeAfter         = freeze.DefaultAfter
	DefaultThawDeletions       = 30
	DefaultThawPeriod          = 10 * time.Minute
	DefaultCertificateLifetime = 7 * 24 * time.Hour
	DefaultGracePeriod         = hollow.DefaultGracePeriod

	// CredentialInTarget and CredentialInHost are values of CredentialSecretCluster.
	CredentialInTarget, CredentialInHost = "target", "host"

	// longestTimeout bounds one request of an agent that joins.
	longestTimeout = 5 * time.Second
	// shortestGracePeriod is one in which a Node has time for a heartbeat.
	shortestGracePeriod = 5 * time.Second
	// shortestLease is a Lease that can be renewed in time.
	shortestLease = 4 * time.Second
	// shortestLifetime is the shortest that the certificates API and the token API grant; longestLifetime is the
	// longest that the hub approves.
	shortestLifetime = 10 * time.Minute
	longestLifetime  = 30 * 24 * time.Hour
)

// Options of an agent.
type Options struct {
	// ClusterName is the agent's Cluster on the hub. Required.
	ClusterName string
	HubOptions
	WorkloadOptions
	NodeOptions
	FreezeOptions
	// LoadTests is what load tests may do in the target. No object of the hub can widen it.
	LoadTests LoadTestOptions
	// SimulatedClustersSocket is the path of the socket of a local fleet's keeper, which runs the SimulatedClusters that this cluster
	// hosts. Default: it hosts none.
	SimulatedClustersSocket string
	// SimulatedPods have pods of the host run them instead.
	SimulatedPods SimulatedPodOptions
	telemetry.ServeOptions
	// Version of the agent. Default "dev".
	Version string
	// Log is for operators.
	Log logr.Logger
}

// HubOptions say how the agent gets to the hub.
type HubOptions struct {
	// HubKubeconfig is the path of a ready kubeconfig for the hub. Either this or BootstrapKubeconfig is required.
	HubKubeconfig string
	// BootstrapKubeconfig is the path of a kubeconfig with the hub's address, its certificate authority and a join
	// token. The credential that the agent gets with it is kept in CredentialDir or in the Secret
	// CredentialSecret ("namespace/name") of the target; exactly one of them is required then.
	//
	// With HubKubeconfig, CredentialDir only keeps the agent's identity, so that a new process continues with the
	// Lease of one that was killed.
	BootstrapKubeconfig, CredentialDir, CredentialSecret string
	// CredentialSecretCluster is the cluster of CredentialSecret: CredentialInTarget, the default, or CredentialInHost.
	CredentialSecretCluster string
	// CertificateLifetime is asked for, for tokens too. Default 168h.
	CertificateLifetime time.Duration
}

// WorkloadOptions say where the Nodes and their pods are.
type WorkloadOptions struct {
	// TargetKubeconfig and HostKubeconfig are paths. An empty one means the cluster that the agent runs in;
	// HostKubeconfig defaults to TargetKubeconfig.
	TargetKubeconfig, HostKubeconfig string
	// TargetNamespace has the ServiceAccount hollow-node-bootstrap in the target cluster; HostNamespace has
	// the pods in the host cluster. Default "hollowfleet".
	TargetNamespace, HostNamespace string
	// TargetServerURL is the target's API server as hollow-node pods reach it. Default: that of the kubeconfig.
	TargetServerURL string
}

// NodeOptions say what Machines are made of.
type NodeOptions struct {
	// HollowNodeImage is the image of hollow-node pods. Default "hollowfleet/hollow-node".
	HollowNodeImage string
	// HollowNodeMinorImages are images of hollow-node pods with the kubelet code of other minors, by minor, such as 1.36. Default: none.
	HollowNodeMinorImages map[string]string
	// HollowTaint says when hollow Nodes have the taint hollowfleet.io/hollow=true:NoSchedule, unless their class says it.
	// Default Auto.
	HollowTaint v1alpha1.HollowTaint
	// NodeMonitorGracePeriod is that of the target's node controller, to which the heartbeats of hollow nodes must fit. Default 40s, the
	// shortest default of any Kubernetes version.
	NodeMonitorGracePeriod time.Duration
	// StaticPodNamespaces are the namespaces of the target in which the static pods of hollow nodes may be, or "*" for all. Default: none,
	// which refuses static pods.
	StaticPodNamespaces []string
	// CSIDrivers are the names of simulated CSI drivers whose volumes the agent provisions in the target, for which it needs the rights of
	// config/rbac/agent-csi. Default: none.
	CSIDrivers []string
	// Kwok is the built-in provider "kwok".
	Kwok KwokOptions
	// Drivers are providers beside the built-in "hollow" and "kwok", by name.
	Drivers map[string]driver.Factory
}

// KwokOptions say whether there is a provider "kwok", for which the agent needs the rights of config/rbac/agent-kwok.
type KwokOptions struct {
	// Beside: kwok's controller runs beside the agent by other means.
	Beside bool
	// Program is the path of kwok's controller, which the agent starts when there is a Machine of that provider. Dir takes the controller's
	// configuration, credential and log.
	Program, Dir string
	// LeaseDuration is how long the Leases of such Nodes are valid, when the agent starts the controller. Default 40s.
	LeaseDuration time.Duration
}

func (o KwokOptions) isEnabled() bool { return o.Beside || o.Program != "" }

// checkKwok reports what is wrong with the options, for Nodes that are Unknown after so long without a heartbeat.
func (o KwokOptions) checkKwok(grace time.Duration) error {
	switch longest := hollow.LeasesPerGrace * grace; {
	case o.Beside && o.Program != "":
		return errors.New("--kwok, --kwok-program: only one of them can be used: leave --kwok out to let the agent start kwok's controller")
	case o.Program != "" && o.Dir == "":
		return errors.New("--kwok-dir: required with --kwok-program, with a directory for its configuration, credential and log")
	case o.Program == "" && o.Dir != "":
		return errors.New("--kwok-dir: of use with --kwok-program only: remove it, or name the program")
	case o.LeaseDuration%time.Second != 0 || o.LeaseDuration < shortestLease || o.LeaseDuration > longest:
		return fmt.Errorf("--kwok-lease-duration: want whole seconds from %s to %s, three times --node-monitor-grace-period, got %s", shortestLease, longest, o.LeaseDuration)
	}
	return nil
}

// FreezeOptions say when the agent freezes, and how it starts again.
type FreezeOptions struct {
	// FreezeAfter is how long an API server may go without a good answer. Default 30s.
	FreezeAfter time.Duration
	// ThawDeletionsPerMinute is how many of the Machines that were there before a thaw are drained or removed within
	// any minute during ThawPeriod after it. Default 30, for 10m.
	ThawDeletionsPerMinute int
	ThawPeriod             time.Duration
}

// LoadTestOptions is what load tests may do in the target.
type LoadTestOptions struct {
	// PodSecurity is the Pod Security Standard that the namespaces of a run enforce: privileged, baseline or restricted. Default
	// baseline.
	PodSecurity string
	// Nodes is hollow, which pins the pods of a run to hollow Nodes, or any. Default hollow.
	Nodes string
	// Kinds may be in templates beside those that reach no further than their namespace, such as PersistentVolumeClaim or
	// Widget.example.com. Default none.
	Kinds []string
	// MaxStored is how many bytes the objects of a run may take in the API server's etcd at a time, as a quantity. Default 1Gi.
	MaxStored string
}

func (o LoadTestOptions) limits() confine.Limits {
	return confine.Limits{PodSecurity: o.PodSecurity, Nodes: o.Nodes, Kinds: o.Kinds, MaxStored: o.MaxStored}
}

// withDefaults fills o in and reports every option that cannot be used.
func (o Options) withDefaults() (Options, error) {
	var problems []error
	if message := validation.IsDNS1123Label(o.ClusterName); len(message) > 0 {
		problems = append(problems, fmt.Errorf("--cluster-name: %q: %s", o.ClusterName, message[0]))
	}
	o.HostKubeconfig = cmp.Or(o.HostKubeconfig, o.TargetKubeconfig)
	o.TargetNamespace = cmp.Or(o.TargetNamespace, DefaultNamespace)
	o.HostNamespace = cmp.Or(o.HostNamespace, DefaultNamespace)
	o.HollowNodeImage = cmp.Or(o.HollowNodeImage, DefaultHollowNodeImage)
	o.Version = cmp.Or(o.Version, "dev")
	for flag, namespace := range map[string]string{"--target-namespace": o.TargetNamespace, "--host-namespace": o.HostNamespace} {
		if message := validation.IsDNS1123Label(namespace); len(message) > 0 {
			problems = append(problems, fmt.Errorf("%s: %q: %s", flag, namespace, message[0]))
		}
	}
	o.FreezeAfter = cmp.Or(o.FreezeAfter, DefaultFreezeAfter)
	if o.FreezeAfter < time.Second {
		problems = append(problems, fmt.Errorf("--freeze-after: want at least 1s, got %s", o.FreezeAfter))
	}
	o.ThawDeletionsPerMinute = cmp.Or(o.ThawDeletionsPerMinute, DefaultThawDeletions)
	o.ThawPeriod = cmp.Or(o.ThawPeriod, DefaultThawPeriod)
	o.HollowTaint = cmp.Or(o.HollowTaint, v1alpha1.HollowTaintAuto)
	o.NodeMonitorGracePeriod = cmp.Or(o.NodeMonitorGracePeriod, DefaultGracePeriod)
	if o.NodeMonitorGracePeriod < shortestGracePeriod {
		problems = append(problems, fmt.Errorf("--node-monitor-grace-period: want at least %s, got %s", shortestGracePeriod, o.NodeMonitorGracePeriod))
	}
	o.CredentialSecretCluster = cmp.Or(o.CredentialSecretCluster, CredentialInTarget)
	o.SimulatedPods = o.SimulatedPods.withDefaults()
	problems = append(problems, o.checkHollowTaint(), o.checkStaticPods(), o.checkCSIDrivers(), o.checkMinorImages(), o.checkThaw(), o.checkSimulated(), o.checkSecretCluster(), o.ServeOptions.Validate())
	if _, err := o.LoadTests.limits().Complete(); err != nil {
		problems = append(problems, err)
	}
	o.CertificateLifetime = cmp.Or(o.CertificateLifetime, DefaultCertificateLifetime)
	if o.CertificateLifetime < shortestLifetime || o.CertificateLifetime > longestLifetime {
		problems = append(problems, fmt.Errorf("--certificate-lifetime: want %s to %s, got %s", shortestLifetime, longestLifetime, o.CertificateLifetime))
	}
	o.Kwok.LeaseDuration = cmp.Or(o.Kwok.LeaseDuration, kwok.DefaultLeaseDuration)
	problems = append(problems, o.Kwok.checkKwok(o.NodeMonitorGracePeriod))
	for _, builtIn := range []string{v1alpha1.ProviderHollow, v1alpha1.ProviderKwok} {
		if _, taken := o.Drivers[builtIn]; taken {
			problems = append(problems, fmt.Errorf("provider %q is built in and cannot be replaced", builtIn))
		}
	}
	return o, errors.Join(append(problems, o.checkWay())...)
}

func (o Options) checkHollowTaint() error {
	switch o.HollowTaint {
	case v1alpha1.HollowTaintAuto, v1alpha1.HollowTaintAlways, v1alpha1.HollowTaintNever:
		return nil
	}
	return fmt.Errorf("--hollow-taint: want Auto, Always or Never, got %q", o.HollowTaint)
}

func (o Options) checkStaticPods() error {
	for _, namespace := range o.StaticPodNamespaces {
		if message := validation.IsDNS1123Label(namespace); len(message) > 0 && namespace != hollow.AnyNamespace {
			return fmt.Errorf("--static-pod-namespaces: want namespaces or %s, got %q: %s", hollow.AnyNamespace, namespace, message[0])
		}
	}
	return nil
}

func (o Options) checkCSIDrivers() error {
	for _, name := range o.CSIDrivers {
		if !hollow.IsCSIDriverName(name) {
			return fmt.Errorf("--csi-drivers: want names of CSI drivers such as csi.example.com, got %q", name)
		}
	}
	return nil
}

func (o Options) checkMinorImages() error {
	if err := hollow.CheckMinorImages(o.HollowNodeMinorImages); err != nil {
		return fmt.Errorf("--hollow-node-minor-image: want a minor and its image, such as 1.36=hollowfleet/hollow-node-v1.36: %w", err)
	}
	return nil
}

// checkThaw reports what is wrong with what holds after a thaw.
func (o Options) checkThaw() error {
	var problems []error
	if o.ThawDeletionsPerMinute < 0 {
		problems = append(problems, fmt.Errorf("--thaw-deletions-per-minute: want at least 1, got %d", o.ThawDeletionsPerMinute))
	}
	if o.ThawPeriod < 0 {
		problems = append(problems, fmt.Errorf("--thaw-period: want more than 0, got %s", o.ThawPeriod))
	}
	return errors.Join(problems...)
}

// checkWay reports what is wrong with the way to the hub.
func (o Options) checkWay() error {
	switch {
	case o.HubKubeconfig == "" && o.BootstrapKubeconfig == "":
		return errors.New("--bootstrap-kubeconfig: required, with the path of the kubeconfig that 'kubectl hollow cluster join' prints; or --hub-kubeconfig, with that of a ready one")
	case o.HubKubeconfig != "" && o.BootstrapKubeconfig != "":
		return errors.New("--hub-kubeconfig, --bootstrap-kubeconfig: only one of them can be used: leave --hub-kubeconfig out to join, or --bootstrap-kubeconfig to work with a ready kubeconfig")
	case o.HubKubeconfig != "" && o.CredentialSecret != "":
		return errors.New("--credential-secret: of use with --bootstrap-kubeconfig only: remove it, because --hub-kubeconfig has the credential")
	case o.HubKubeconfig != "":
		return nil
	case o.CredentialDir == "" && o.CredentialSecret == "":
		return errors.New("--credential-dir: required with --bootstrap-kubeconfig, with a directory that outlives the process; or --credential-secret, with the namespace/name of a Secret of the workload cluster")
	case o.CredentialDir != "" && o.CredentialSecret != "":
		return errors.New("--credential-dir, --credential-secret: only one of them can be used: leave one of them out")
	case o.CredentialSecret != "":
		_, err := o.secretKey()
		return err
	}
	return nil
}

// checkSecretCluster reports what is wrong with where the Secret of the credential is.
func (o Options) checkSecretCluster() error {
	switch {
	case o.CredentialSecretCluster != CredentialInTarget && o.CredentialSecretCluster != CredentialInHost:
		return fmt.Errorf("--credential-secret-cluster: want target or host, got %q", o.CredentialSecretCluster)
	case o.CredentialSecretCluster == CredentialInHost && o.CredentialSecret == "":
		return errors.New("--credential-secret-cluster: of use with --credential-secret only: remove it, or name the Secret")
	}
	return nil
}

// secretKey is the Secret of CredentialSecret.
func (o Options) secretKey() (client.ObjectKey, error) {
	namespace, name, ok := strings.Cut(o.CredentialSecret, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return client.ObjectKey{}, fmt.Errorf("--credential-secret: want namespace/name, got %q", o.CredentialSecret)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}

// UsageError says that the options cannot be used as they are.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }
