package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/hub/internal/cluster"
	"github.com/hollowfleet/hollowfleet/hub/internal/disruption"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

// The defaults of Options.
const (
	DefaultNamespace       = v1alpha1.HubNamespace
	DefaultHealthAddress   = "127.0.0.1:8081"
	DefaultMetricsAddress  = "127.0.0.1:8080"
	DefaultConcurrency     = 4
	DefaultShutdownTimeout = 15 * time.Second
	DefaultSafetyUp        = 2
	DefaultSafetyDown      = 1
	DefaultSafetyPeriod    = time.Minute
)

// disabled is the address of a server that is not to run.
const disabled = "0"

// Options are what a hub needs to know. The zero value of a field means its default.
type Options struct {
	// Config reaches the hub's API server. Default: what Kubeconfig says.
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig. Default: $KUBECONFIG, else that of the pod's service account.
	Kubeconfig string
	// KubeAPIQPS bounds the requests per second to the API server. Default 0: no bound but the server's own
	// priority and fairness.
	KubeAPIQPS float32
	// Namespace holds the lease of the leader; it is created if missing. Default hollowfleet-system, and no flag sets it:
	// "hub install" gives the hub its roles in that one alone.
	Namespace string
	// NoLeaderElection lets the hub work without being elected. Only for a hub that is surely the only one. It renews the Lease of the
	// leader all the same, unless another hub does.
	NoLeaderElection bool
	// HealthAddress serves /healthz and /readyz, MetricsAddress /metrics; "0" serves none. Defaults
	// 127.0.0.1:8081 and 127.0.0.1:8080.
	HealthAddress, MetricsAddress string
	// PprofAddress serves profiles. Default none.
	PprofAddress string
	// Heartbeat is for what Clusters leave open. Default: every 10 seconds, silent after 40.
	Heartbeat v1alpha1.Heartbeat
	// SafetyUp is how many Machines more than were asked for freeze a MachineSet and its MachineDeployment; they thaw
	// when there are SafetyDown fewer than that. Defaults 2 and 1.
	SafetyUp, SafetyDown int
	// SafetyPeriod is how often all MachineSets are looked through for that, beside at each Machine that comes.
	// Default 1m.
	SafetyPeriod time.Duration
	// Concurrency is how many objects of each kind are worked on at once. Default 4.
	Concurrency int
	// ShutdownTimeout bounds the time from the end of the context to the return of Run. Default 15s.
	ShutdownTimeout time.Duration
	// Serving says with which certificate health and metrics are served. Default: without TLS.
	Serving telemetry.Serving
	// Tracing says which traces and metrics are sent, and where to. Default: none.
	Tracing telemetry.Options
	// Version is what the hub tells agents, which compare it with theirs. Default: that of the program.
	Version string
	// Logger gets the logs. Default: none are written.
	Logger logr.Logger
}

// completeOptions fills in the defaults and says what is wrong.
func (o Options) completeOptions() (Options, error) {
	setDefault(&o.Namespace, DefaultNamespace)
	setDefault(&o.HealthAddress, DefaultHealthAddress)
	setDefault(&o.MetricsAddress, DefaultMetricsAddress)
	setDefault(&o.PprofAddress, disabled)
	setDefault(&o.Version, version.Here())
	setDefault(&o.Concurrency, DefaultConcurrency)
	setDefault(&o.ShutdownTimeout, DefaultShutdownTimeout)
	setDefault(&o.SafetyUp, DefaultSafetyUp)
	setDefault(&o.SafetyDown, DefaultSafetyDown)
	setDefault(&o.SafetyPeriod, DefaultSafetyPeriod)
	switch {
	case o.Heartbeat.PeriodSeconds < 0 || o.Heartbeat.GraceSeconds < 0:
		return o, errors.New("heartbeat period and grace must be at least a second")
	case o.Heartbeat.GraceSeconds != 0 && o.Heartbeat.GraceSeconds < 2*o.Heartbeat.PeriodSeconds:
		return o, errors.New("heartbeat grace must be at least twice the heartbeat period, or one lost renewal counts as a lost agent")
	case o.SafetyUp < 0:
		return o, errors.New("--safety-up must be 1 or more")
	case o.SafetyDown < 0:
		return o, errors.New("--safety-down must be 1 or more")
	case o.SafetyDown > o.SafetyUp:
		return o, fmt.Errorf("--safety-down must be at most --safety-up, which is %d: otherwise a frozen MachineSet would not unfreeze "+
			"with the number of Machines that was asked for", o.SafetyUp)
	case o.SafetyPeriod < 0:
		return o, errors.New("--machine-safety-overshooting-period must be more than 0s")
	case o.Concurrency < 0:
		return o, errors.New("concurrency must be 1 or more")
	case o.ShutdownTimeout < 0:
		return o, errors.New("shutdown timeout must not be negative")
	case o.KubeAPIQPS < 0:
		return o, errors.New("kube API QPS must not be negative")
	}
	if o.Config == nil {
		config, err := LoadConfig(o.Kubeconfig)
		if err != nil {
			return o, err
		}
		o.Config = config
	}
	o.Config = rest.CopyConfig(o.Config)
	o.Config.QPS, o.Config.Burst = -1, 0
	if o.KubeAPIQPS > 0 {
		o.Config.QPS, o.Config.Burst = o.KubeAPIQPS, int(2*o.KubeAPIQPS)+1
	}
	o.Config.UserAgent = "hollowfleet-hub"
	// The hub runs beside its API server, where the wire is cheap: compressing and expanding a list of 200 Machines, 0.9 MB,
	// takes 8 ms of processor time at each step of a rollout.
	o.Config.DisableCompression = true
	return o, nil
}

func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// LoadConfig reads a kubeconfig; an empty path means $KUBECONFIG, else the pod's service account.
func LoadConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("there is no kubeconfig of the hub's API server: name one with --kubeconfig or $KUBECONFIG")
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig of the hub's API server: %w", err)
	}
	return config, nil
}

// Install applies what a hub needs on its API server: the kinds, the admission policies,
// the hub's namespace and service account, and the roles of hub and agents. It returns when the API server serves the kinds, or ctx is done. Install
// again to upgrade; what is as wanted is left as it is.
func Install(ctx context.Context, target *rest.Config) error {
	direct, err := client.New(target, client.Options{Scheme: scheme.New()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := config.InstallCRDs(ctx, direct, config.CRDs, "crd"); err != nil {
		return err
	}
	// Before the roles, so that no agent has rights without it.
	if err := config.Apply(ctx, direct, config.Admission, "admission"); err != nil {
		return err
	}
	for _, dir := range []string{"rbac/hub", "rbac/agent-hub", "rbac/users"} {
		if err := config.Apply(ctx, direct, config.RBAC, dir); err != nil {
			return err
		}
	}
	return nil
}

// The formats of NewLogger.
const (
	LogText = "text"
	LogJSON = "json"
)

// NewLogger returns a logger that writes lines of format to w. Verbosity is the highest V level that is written: 0
// tells what an operator has to know, 1 what each decision was, 4 and more is for developers.
func NewLogger(w io.Writer, format string, verbosity int) (logr.Logger, error) {
	// logr's level n is slog's level -n.
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity)}
	switch format {
	case LogText:
		return logr.FromSlogHandler(slog.NewTextHandler(w, options)), nil
	case LogJSON:
		return logr.FromSlogHandler(slog.NewJSONHandler(w, options)), nil
	}
	return logr.Discard(), fmt.Errorf("unknown log format %q: use %s or %s", format, LogText, LogJSON)
}

// cacheOptions keep the hub's memory to what its controllers read: only its own kinds whole, of the others
// the few objects that the hub or an agent made, and of nothing the managed fields.
func cacheOptions() cache.Options {
	made := labels.SelectorFromSet(labels.Set{v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub})
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		// A kind that no controller watches is read live or not at all, never cached by accident.
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			// Which Nodes a run hits, 500 of them, is for its agent and for users.
			&v1alpha1.NodeDisruptionRun{}: {Transform: disruption.Shrink},
			// Histograms are read when they are merged.
			&v1alpha1.LoadTestRun{}:      {Transform: loadtest.Shrink},
			&coordinationv1.Lease{}:      named(v1alpha1.AgentLeaseName),
			&rbacv1.RoleBinding{}:        named(cluster.AgentRole),
			&corev1.ServiceAccount{}:     named(v1alpha1.AgentServiceAccount),
			&rbacv1.ClusterRole{}:        {Label: made},
			&rbacv1.ClusterRoleBinding{}: {Label: made},
			&certificatesv1.CertificateSigningRequest{}: {
				Field: fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientSignerName),
			},
		},
	}
}
