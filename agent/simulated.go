package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/local"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
)

// Values and defaults of SimulatedPodOptions.
const (
	// SimulatedByPods has pods of the host run simulated clusters.
	SimulatedByPods = "pods"

	DefaultSimclusterImage      = "hollowfleet/simcluster"
	DefaultAgentImage           = "hollowfleet/agent"
	DefaultMaxSimulatedClusters = 10
	DefaultSimulatedStorage     = "2Gi"

	// accountName is the ServiceAccount of an agent that runs in a cluster.
	accountName = "hollowfleet-agent"
	// repairInterval is how often simulated clusters are held against what was asked for, repairTimeout how long that may take.
	repairInterval, repairTimeout = 5 * time.Minute, 2 * time.Minute
)

// SimulatedPodOptions say how the SimulatedClusters that this cluster hosts are run as pods of the host.
type SimulatedPodOptions struct {
	// By is SimulatedByPods, or empty: no pods are made.
	By string
	// Image and AgentImage are those of the control planes and their agents. Default hollowfleet/simcluster and hollowfleet/agent.
	Image, AgentImage string
	// Certificates say who makes those of new clusters: auto, cert-manager or self-signed. Default auto.
	Certificates string
	// StorageSize is that of a control plane's volume, StorageClass its class. Default 2Gi and the host's own.
	StorageSize, StorageClass string
	// Quota bounds what the namespace of each cluster takes, such as requests.memory=4Gi. Default: there is none.
	Quota map[string]string
	// Max is how many clusters there may be. Default 10.
	Max int
}

func (o SimulatedPodOptions) withDefaults() SimulatedPodOptions {
	o.Image, o.AgentImage = cmp.Or(o.Image, DefaultSimclusterImage), cmp.Or(o.AgentImage, DefaultAgentImage)
	o.Certificates = cmp.Or(o.Certificates, string(pods.PKIAuto))
	o.StorageSize = cmp.Or(o.StorageSize, DefaultSimulatedStorage)
	o.Max = cmp.Or(o.Max, DefaultMaxSimulatedClusters)
	return o
}

// check reports what is wrong with them.
func (o SimulatedPodOptions) check() error {
	var problems []error
	if o.By != "" && o.By != SimulatedByPods {
		problems = append(problems, fmt.Errorf("--simulated-clusters: want pods or nothing, got %q", o.By))
	}
	if known := []string{string(pods.PKIAuto), string(pods.PKICertManager), string(pods.PKISelfSigned)}; !slices.Contains(known, o.Certificates) {
		problems = append(problems, fmt.Errorf("--simulated-clusters-pki: want auto, cert-manager or self-signed, got %q", o.Certificates))
	}
	if o.Max < 1 {
		problems = append(problems, fmt.Errorf("--simulated-clusters-max: want at least 1, got %d", o.Max))
	}
	if size, err := resource.ParseQuantity(o.StorageSize); err != nil || size.Sign() <= 0 {
		problems = append(problems, fmt.Errorf("--simulated-clusters-storage-size: want a size such as 2Gi, got %q", o.StorageSize))
	}
	if o.StorageClass != "" && len(validation.IsDNS1123Subdomain(o.StorageClass)) > 0 {
		problems = append(problems, fmt.Errorf("--simulated-clusters-storage-class: %q is not the name of a StorageClass", o.StorageClass))
	}
	_, err := o.quota()
	return errors.Join(append(problems, err)...)
}

func (o SimulatedPodOptions) quota() (corev1.ResourceList, error) {
	hard := corev1.ResourceList{}
	for name, text := range o.Quota {
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Sign() < 0 || len(validation.IsQualifiedName(name)) > 0 {
			return nil, fmt.Errorf("--simulated-clusters-quota: want a resource and a quantity such as requests.memory=4Gi, got %s=%s", name, text)
		}
		hard[corev1.ResourceName(name)] = quantity
	}
	return hard, nil
}

// maxSocketPath is how long the path of a unix socket may be on Linux.
const maxSocketPath = 107

// checkSimulated reports what is wrong with what runs simulated clusters. A keeper's socket need not be there yet.
func (o Options) checkSimulated() error {
	problem := o.SimulatedPods.check()
	switch path := o.SimulatedClustersSocket; {
	case path == "":
		return problem
	case o.SimulatedPods.By != "":
		return errors.New("--simulated-clusters, --simulated-clusters-socket: only one of them can be used: leave one of them out")
	case !filepath.IsAbs(path):
		return fmt.Errorf("--simulated-clusters-socket: want an absolute path, got %q", path)
	case len(path) > maxSocketPath:
		return fmt.Errorf("--simulated-clusters-socket: want at most %d bytes, got %d: put the fleet into a directory with a shorter path", maxSocketPath, len(path))
	}
	return problem
}

// hostsSimulated reports whether something runs the SimulatedClusters that this cluster hosts.
func (o Options) hostsSimulated() bool {
	return o.SimulatedClustersSocket != "" || o.SimulatedPods.By != ""
}

// newClusterDriver makes what runs them, behind the freeze gate; nil if nothing does.
func (w *worker) newClusterDriver(c clusters) (clusterdriver.Driver, error) {
	switch {
	case w.SimulatedClustersSocket != "":
		return w.gate.ClusterDriver(local.New(w.SimulatedClustersSocket)), nil
	case w.SimulatedPods.By == "":
		return nil, nil // There is none.
	}
	quota, err := w.SimulatedPods.quota()
	if err != nil {
		return nil, err
	}
	size, err := resource.ParseQuantity(w.SimulatedPods.StorageSize)
	if err != nil {
		return nil, fmt.Errorf("--simulated-clusters-storage-size: %w", err)
	}
	driver, err := pods.New(pods.Options{
		Config: w.host, Gate: w.gate.RoundTripper, Clock: w.clock, MaxClusters: w.SimulatedPods.Max, Certificates: pods.PKIChoice(w.SimulatedPods.Certificates),
		Settings: rendering.Settings{
			Host: w.ClusterName, AgentNamespace: w.HostNamespace, AgentAccount: accountName,
			SimclusterImage: w.SimulatedPods.Image, AgentImage: w.SimulatedPods.AgentImage, HollowNodeImage: w.HollowNodeImage,
			HollowNodeMinorImages: w.HollowNodeMinorImages,
			StorageSize:           size, StorageClass: w.SimulatedPods.StorageClass, Quota: quota,
			FreezeAfter: w.FreezeAfter, CertificateLifetime: w.CertificateLifetime,
		},
	})
	if err != nil {
		return nil, err
	}
	repair := poll.Loop{
		Doing: "Repairing simulated clusters", Every: repairInterval, Timeout: repairTimeout, Wake: driver.RepairRequests(), Runtime: w.pollRuntime("simulatedcluster"),
		Do: func(ctx context.Context) error {
			if w.monitor.Check() != nil {
				return nil //nolint:nilerr // A frozen agent repairs nothing.
			}
			return driver.Repair(w.monitor.Deciding(ctx))
		},
	}
	return w.gate.ClusterDriver(driver), c.hub.Add(manager.RunnableFunc(repair.Run))
}
