// Package clientcert gets, keeps and renews what the agent shows to the hub: a client certificate, or a token of
// its ServiceAccount where the hub's API server signs no client certificates.
//
// The private key is made here, is kept in the agent's own store, and never leaves it. A Manager works also while
// the agent is frozen, past the freeze gate: a new credential changes no machine, and an agent that let its own
// lapse could never prove the hub healthy again.
package clientcert

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// check is how often the bootstrap kubeconfig is looked at for another server or authority.
	look = 5 * time.Second
	// longestRound bounds the requests of one round.
	longestRound = 30 * time.Second
)

// Options of a Manager. All are required but Log.
type Options struct {
	// Cluster is the agent's Cluster on the hub.
	Cluster string
	// bootstrapState is the path of the bootstrap kubeconfig. The hub's address and authority are always those that
	// stand there now; without the file, those that were stored last.
	Bootstrap string
	Store     Store
	// Lifetime is asked for; the hub may grant a shorter one.
	Lifetime time.Duration
	// Dial makes a client of the hub. It is not gated: see the package's comment.
	Dial func(*rest.Config) (client.Client, error)
	// Random returns numbers in [0, 1).
	Random  func() float64
	Clock   clock.WithTicker
	Log     logr.Logger
	Metrics *Metrics
}

// Manager gets the agent's credential and keeps it fresh. Clients follow it through clients.Rotating.
type Manager struct {
	Options
	poked    chan struct{}
	requests requests
	// server is where the hub is; contents are what the store has. Both belong to Run.
	server    *clientcmdapi.Cluster
	bootstrap bootstrap
	// servers counts the servers that there have been. dialed is the last client that was made.
	servers int
	dialed  struct {
		key    string
		client client.Client
	}
	// problem is why the bootstrap kubeconfig cannot be used, spent the token that the hub did not know.
	problem  error
	spent    string
	contents Contents
	// unsaved: the present credential is not in the store yet.
	unsaved  bool
	failures int

	mu       sync.Mutex
	config   *rest.Config
	version  uint64
	present  *Credential
	held     *heldCredential
	refusals refusals
	waiting  string
	// said is what the log was told last.
	said string
}

// New returns a Manager. Run makes it work.
func New(options Options) (*Manager, error) {
	if options.Cluster == "" || options.Bootstrap == "" || options.Store == nil || options.Lifetime <= 0 ||
		options.Dial == nil || options.Random == nil || options.Clock == nil || options.Metrics == nil {
		return nil, errors.New("a keeper of credentials needs a cluster, a bootstrap kubeconfig, a store, a lifetime, a dialer, a clock, a random source and metrics")
	}
	k := &Manager{Options: options, poked: make(chan struct{}, 1), waiting: "the stored credential"}
	k.requests = requests{keeper: k}
	return k, nil
}

// wake makes Run look at once.
func (k *Manager) wake() {
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

// Run keeps the credential until ctx ends.
func (k *Manager) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := k.round(ctx)
		if wait <= 0 {
			continue
		}
		timer := k.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-k.poked:
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
}

// round does what is to be done now and returns how long to wait for the next.
func (k *Manager) round(parent context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(parent, longestRound)
	defer cancel()
	k.readBootstrap()
	held := k.heldNow()
	if !renewalDue(held, k.Clock.Now()) && !k.unsaved {
		return look
	}
	if err := k.load(ctx); err != nil {
		if k.present == nil {
			return k.failed(parent, err)
		}
		k.goOn(err)
	}
	if k.unsaved {
		if err := k.save(ctx); err != nil {
			k.goOn(err)
		}
	}
	if held = k.heldNow(); !renewalDue(held, k.Clock.Now()) {
		return look
	}
	as := identityToUse(held, bootstrapState{Given: k.problem == nil, Refused: k.spent != "" && k.spent == k.bootstrap.token}, k.Clock.Now())
	taken, wait, err := k.ask(ctx, as)
	switch {
	case err != nil:
		return k.refused(parent, as, err)
	case taken == nil:
		k.failures, k.spent = 0, ""
		return wait
	}
	k.requests.done()
	k.failures, k.spent = 0, ""
	k.take(*taken, k.Clock.Now())
	k.unsaved = true
	if err := k.save(ctx); err != nil {
		k.goOn(err)
	}
	k.Metrics.ended(resultIssued)
	return look
}

// ask takes one step towards a new credential.
func (k *Manager) ask(ctx context.Context, as hubIdentity) (taken *Credential, wait time.Duration, err error) {
	config := k.config
	switch as {
	case joiningIdentity:
		config, err = restConfig(k.server, &clientcmdapi.AuthInfo{Token: k.bootstrap.token})
	case ownIdentity: // That is the present configuration.
	case noIdentity:
		err = fmt.Errorf("a new bootstrap kubeconfig: %w", k.problem)
	}
	if err != nil {
		return nil, 0, err
	}
	hub, err := k.dial(as, config)
	if err != nil {
		return nil, 0, err
	}
	if k.kind() == serviceAccountToken {
		taken, err = k.requestToken(ctx, hub)
		return taken, 0, err
	}
	return k.requests.step(ctx, hub, as)
}

// dial returns a client, the same one for as long as nothing has changed.
func (k *Manager) dial(as hubIdentity, config *rest.Config) (client.Client, error) {
	key := fmt.Sprint(as, " ", k.version, " ", k.servers, " ", config.BearerToken)
	if k.dialed.client != nil && k.dialed.key == key {
		return k.dialed.client, nil
	}
	made, err := k.Dial(config)
	if err != nil {
		return nil, err
	}
	k.dialed.client, k.dialed.key = made, key
	return made, nil
}

// kind is that of the bootstrap token, or else of the credential that the agent has.
func (k *Manager) kind() kind {
	if k.problem != nil && k.present != nil {
		return k.present.kind()
	}
	return k.bootstrap.kind
}

// refused takes in that the hub did not do what was asked with an identity.
func (k *Manager) refused(ctx context.Context, as hubIdentity, err error) time.Duration {
	if apierrors.IsUnauthorized(err) {
		if as == ownIdentity {
			k.Answered(k.version, http.StatusUnauthorized)
		} else {
			k.spent = k.bootstrap.token
		}
	}
	k.Metrics.ended(resultError)
	return k.failed(ctx, k.explain(as, err))
}

// failed says why there is no new credential, and returns how long to wait.
func (k *Manager) failed(ctx context.Context, err error) time.Duration {
	k.failures++
	if ctx.Err() == nil {
		k.setWaiting(err.Error(), "Getting a credential for the hub failed; trying again")
	}
	return retryDelay(k.failures, k.Random())
}

// setWaiting tells the log once of what is waited for, and keeps it for those who ask.
func (k *Manager) setWaiting(waitingFor, message string) {
	k.mu.Lock()
	said := k.said == waitingFor+message
	k.said = waitingFor + message
	if waitingFor != "" {
		k.waiting = waitingFor
	}
	k.mu.Unlock()
	if said {
		return
	}
	if waitingFor == "" {
		k.Log.Info(message)
		return
	}
	k.Log.Info(message, "Cluster", k.Cluster, "for", waitingFor)
}

// Results of an attempt to get a credential.
const (
	resultIssued = "Issued"
	resultDenied = "Denied"
	resultFailed = "Failed"
	resultError  = "Error"
)

// Metrics of a Manager.
type Metrics struct {
	expiry   prometheus.Gauge
	renewals *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hollowfleet_agent_credential_expiry_timestamp_seconds",
			Help: "Unix time at which the agent's credential for the hub expires, 0 while it has none.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_agent_credential_renewals_total",
			Help: "Credentials for the hub that were asked for, the first one too, by result: Issued; Denied by the hub; Failed at the signer; Error of a request, which is tried again.",
		}, []string{"result"}),
	}
	registerer.MustRegister(m.expiry, m.renewals)
	for _, result := range []string{resultIssued, resultDenied, resultFailed, resultError} {
		m.renewals.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) holds(expiry time.Time) { m.expiry.Set(float64(expiry.Unix())) }

func (m *Metrics) ended(result string) { m.renewals.WithLabelValues(result).Inc() }
