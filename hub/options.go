package hub

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
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
	// NoLeaderElection lets the hub work without being elected. Only for a hub that is surely the only one.
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
	// Logger gets the logs. Default: none are written.
	Logger logr.Logger
}

// complete fills in the defaults and says what is wrong.
func (o Options) complete() (Options, error) {
	setDefault(&o.Namespace, DefaultNamespace)
	setDefault(&o.HealthAddress, DefaultHealthAddress)
	setDefault(&o.MetricsAddress, DefaultMetricsAddress)
	setDefault(&o.PprofAddress, disabled)
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
		return o, fmt.Errorf("--safety-down must be at most --safety-up, which is %d: else a MachineSet that froze would not thaw "+
			"with as many Machines as were asked for", o.SafetyUp)
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
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the hub's API server: %w", err)
	}
	return config, nil
}
