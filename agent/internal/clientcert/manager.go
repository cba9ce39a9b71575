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

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
)

const (
	// recheckInterval is how often the kubeconfig is read again, for another server or authority.
	recheckInterval = 5 * time.Second
	// longestRound bounds the requests of one round.
	longestRound = 30 * time.Second
)

// Options of a Manager. All are required but Log.
type Options struct {
	// Cluster is the agent's Cluster on the hub.
	Cluster string
	// Bootstrap is the path of the bootstrap kubeconfig. The hub's address and authority are always those in this file;
	// without the file, those that were stored last.
	Bootstrap string
	Store     Store
	// Lifetime is asked for; the hub may grant a shorter one.
	Lifetime time.Duration
	// Dial makes a client of the hub. It is not gated: see the package's comment.
	Dial func(*rest.Config) (client.Client, error)
	// Random returns numbers in [0, 1).
	Random  func() float64
	Metrics *Metrics
	poll.Runtime
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
	// unsaved: the current credential is not in the store yet.
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
		return nil, errors.New("clientcert.Options: Cluster, Bootstrap, Store, Lifetime, Dial, Random, Clock and Metrics are required")
	}
	m := &Manager{Options: options, poked: make(chan struct{}, 1), waiting: "the stored credential"}
	m.requests = requests{manager: m}
	return m, nil
}

// wakeRun makes Run look at once.
func (m *Manager) wakeRun() {
	select {
	case m.poked <- struct{}{}:
	default:
	}
}

// Run keeps the credential until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	var wait time.Duration
	return poll.Loop{
		Do:   func(ctx context.Context) error { wait = m.advanceCredential(ctx); return nil },
		Next: func(context.Context) time.Duration { return wait }, Wake: m.poked, Runtime: m.Runtime,
	}.Run(ctx)
}

// advanceCredential does what is to be done now and returns how long to wait for the next.
func (m *Manager) advanceCredential(parent context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(parent, longestRound)
	defer cancel()
	m.readBootstrap()
	held := m.heldNow()
	if !renewalDue(held, m.Clock.Now()) && !m.unsaved {
		return recheckInterval
	}
	if err := m.loadCredential(ctx); err != nil {
		if m.present == nil {
			return m.recordFailure(parent, explainStoreError(err))
		}
		m.continueWithoutStore(err)
	}
	if m.unsaved {
		if err := m.storeCredential(ctx); err != nil {
			m.continueWithoutStore(err)
		}
	}
	if held = m.heldNow(); !renewalDue(held, m.Clock.Now()) {
		return recheckInterval
	}
	as := identityToUse(held, bootstrapState{Given: m.problem == nil, Refused: m.spent != "" && m.spent == m.bootstrap.token}, m.Clock.Now())
	taken, wait, err := m.requestCredential(ctx, as)
	switch {
	case err != nil:
		return m.recordRefusal(parent, as, err)
	case taken == nil:
		m.failures, m.spent = 0, ""
		return wait
	}
	m.requests.resetCounts()
	m.failures, m.spent = 0, ""
	m.adoptCredential(*taken, m.Clock.Now())
	m.unsaved = true
	if err := m.storeCredential(ctx); err != nil {
		m.continueWithoutStore(err)
	}
	m.Metrics.countResult(resultIssued)
	return recheckInterval
}

// requestCredential takes one step towards a new credential.
func (m *Manager) requestCredential(ctx context.Context, as hubIdentity) (taken *Credential, wait time.Duration, err error) {
	config := m.config
	switch as {
	case joiningIdentity:
		config, err = restConfig(m.server, &clientcmdapi.AuthInfo{Token: m.bootstrap.token})
	case ownIdentity: // That is the present configuration.
	case noIdentity:
		err = fmt.Errorf("a new bootstrap kubeconfig: %w", m.problem)
	}
	if err != nil {
		return nil, 0, err
	}
	hub, err := m.dialHub(as, config)
	if err != nil {
		return nil, 0, err
	}
	if m.credentialKind() == serviceAccountToken {
		taken, err = m.requestToken(ctx, hub)
		return taken, 0, err
	}
	return m.requests.advanceRequest(ctx, hub, as)
}

// dialHub returns a client, the same one for as long as nothing has changed.
func (m *Manager) dialHub(as hubIdentity, config *rest.Config) (client.Client, error) {
	key := fmt.Sprint(as, " ", m.version, " ", m.servers, " ", config.BearerToken)
	if m.dialed.client != nil && m.dialed.key == key {
		return m.dialed.client, nil
	}
	made, err := m.Dial(config)
	if err != nil {
		return nil, err
	}
	m.dialed.client, m.dialed.key = made, key
	return made, nil
}

// credentialKind is that of the bootstrap token, or else of the credential that the agent has.
func (m *Manager) credentialKind() kind {
	if m.problem != nil && m.present != nil {
		return m.present.kindOf()
	}
	return m.bootstrap.kind
}

// recordRefusal takes in that the hub did not do what was asked with an identity.
func (m *Manager) recordRefusal(ctx context.Context, as hubIdentity, err error) time.Duration {
	if stored := (*StoreError)(nil); apierrors.IsUnauthorized(err) && !errors.As(err, &stored) {
		if as == ownIdentity {
			m.Answered(m.version, http.StatusUnauthorized)
		} else {
			m.spent = m.bootstrap.token
		}
	}
	m.Metrics.countResult(resultError)
	return m.recordFailure(ctx, m.explainError(as, err))
}

// recordFailure says why there is no new credential, and returns how long to wait.
func (m *Manager) recordFailure(ctx context.Context, err error) time.Duration {
	m.failures++
	if ctx.Err() == nil {
		m.setWaiting(err.Error(), "Getting a credential for the hub failed; trying again")
	}
	return retryDelay(m.failures, m.Random())
}

// setWaiting tells the log once of what is waited for, and keeps it for those who ask.
func (m *Manager) setWaiting(waitingFor, message string) {
	m.mu.Lock()
	said := m.said == waitingFor+message
	m.said = waitingFor + message
	if waitingFor != "" {
		m.waiting = waitingFor
	}
	m.mu.Unlock()
	if said {
		return
	}
	if waitingFor == "" {
		m.Log.Info(message)
		return
	}
	m.Log.Info(message, "Cluster", m.Cluster, "for", waitingFor)
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

func (m *Metrics) setExpiry(expiry time.Time) { m.expiry.Set(float64(expiry.Unix())) }

func (m *Metrics) countResult(result string) { m.renewals.WithLabelValues(result).Inc() }
