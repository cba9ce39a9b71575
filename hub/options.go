package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/hollowfleet/hollowfleet/hub/internal/machinelog"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// The defaults of Options.
const (
	DefaultConcurrency     = 4
	DefaultShutdownTimeout = 15 * time.Second
	DefaultSafetyPeriod    = time.Minute
)

// namespace is the hub's own: "hub install" gives the hub its roles in that one alone.
const namespace = v1alpha1.HubNamespace

// Options are what a hub needs to know. The zero value of a field means its default.
type Options struct {
	// Config reaches the hub's API server. Required.
	Config *rest.Config
	// KubeAPIQPS bounds the requests per second to the API server. Default 0: no bound but the server's own
	// priority and fairness.
	KubeAPIQPS float32
	// NoLeaderElection lets the hub work without being elected. Only for a hub that is surely the only one. It renews the Lease of the
	// leader all the same, unless another hub does.
	NoLeaderElection bool
	// Heartbeat is for what Clusters leave open. Default: every 10 seconds, silent after 40.
	Heartbeat v1alpha1.Heartbeat
	Safety    Safety
	// Concurrency is how many objects of each kind are worked on at once. Default 4.
	Concurrency int
	// ShutdownTimeout bounds the time from the end of the context to the return of Run. Default 15s.
	ShutdownTimeout time.Duration
	telemetry.ServeOptions
	// Logger gets the logs. Default: none are written.
	Logger logr.Logger
}

// Safety says how many Machines are too many.
type Safety struct {
	// Up is how many Machines more than were asked for freeze a MachineSet and its MachineDeployment; they thaw
	// when there are Down fewer than that. Defaults 2 and 1.
	Up, Down int
	// Period is how often all MachineSets are looked through for that, beside at each Machine that comes.
	// Default 1m.
	Period time.Duration
}

// DefaultSafety is that of a hub without flags.
var DefaultSafety = Safety{Up: plan.DefaultOvershootLimits.Up, Down: plan.DefaultOvershootLimits.Down, Period: DefaultSafetyPeriod}

// complete fills in the defaults and says what is wrong.
func (s Safety) complete() (Safety, error) {
	s = Safety{Up: cmp.Or(s.Up, DefaultSafety.Up), Down: cmp.Or(s.Down, DefaultSafety.Down), Period: cmp.Or(s.Period, DefaultSafety.Period)}
	switch {
	case s.Up < 0:
		return s, errors.New("--safety-up must be 1 or more")
	case s.Down < 0:
		return s, errors.New("--safety-down must be 1 or more")
	case s.Down > s.Up:
		return s, fmt.Errorf("--safety-down must be at most --safety-up, which is %d: otherwise a frozen MachineSet would not unfreeze "+
			"with the number of Machines that was asked for", s.Up)
	case s.Period < 0:
		return s, errors.New("--machine-safety-overshooting-period must be more than 0s")
	}
	return s, nil
}

// Validate says what is wrong with all but Config.
func (o Options) Validate() error {
	_, err := o.withDefaults()
	return errors.Join(err, o.ServeOptions.Validate())
}

// withDefaults fills in the defaults and says what is wrong.
func (o Options) withDefaults() (Options, error) {
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, DefaultShutdownTimeout)
	o.MetricsAddress = cmp.Or(o.MetricsAddress, telemetry.NoAddress) // controller-runtime has a default of its own.
	var err error
	if o.Safety, err = o.Safety.complete(); err != nil {
		return o, err
	}
	switch {
	case o.Heartbeat.PeriodSeconds < 0 || o.Heartbeat.GraceSeconds < 0:
		return o, errors.New("heartbeat period and grace must be at least a second")
	case o.Heartbeat.GraceSeconds != 0 && o.Heartbeat.GraceSeconds < 2*o.Heartbeat.PeriodSeconds:
		return o, errors.New("heartbeat grace must be at least twice the heartbeat period, or one lost renewal counts as a lost agent")
	case o.Concurrency < 0:
		return o, errors.New("concurrency must be 1 or more")
	case o.ShutdownTimeout < 0:
		return o, errors.New("shutdown timeout must not be negative")
	case o.KubeAPIQPS < 0:
		return o, errors.New("kube API QPS must not be negative")
	}
	return o, nil
}

// clientConfig is Config as the hub uses it.
func (o Options) clientConfig() (*rest.Config, error) {
	if o.Config == nil {
		return nil, errors.New("the hub needs a client configuration of its API server")
	}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = -1, 0
	if o.KubeAPIQPS > 0 {
		config.QPS, config.Burst = o.KubeAPIQPS, int(2*o.KubeAPIQPS)+1
	}
	config.UserAgent = "hollowfleet-hub"
	// The hub runs beside its API server, where the wire is cheap: compressing and expanding a list of 200 Machines, 0.9 MB,
	// takes 8 ms of processor time at each step of a rollout.
	config.DisableCompression = true
	return config, nil
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
			&v1alpha1.LoadTestRun{}: {Transform: loadtest.Shrink},
			// The answers are for users.
			&v1alpha1.MachineLogRequest{}: {Transform: machinelog.Shrink},
			&coordinationv1.Lease{}:       named(v1alpha1.AgentLeaseName),
			&rbacv1.RoleBinding{}:         named(cluster.AgentRole),
			&corev1.ConfigMap{}:           named(v1alpha1.KubeletConfigMap),
			&corev1.ServiceAccount{}:      named(v1alpha1.AgentServiceAccount),
			&rbacv1.ClusterRole{}:         {Label: made},
			&rbacv1.ClusterRoleBinding{}:  {Label: made},
			&certificatesv1.CertificateSigningRequest{}: {
				Field: fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientSignerName),
			},
		},
	}
}
