package credential

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/credential/plan"
)

const (
	// look is how often the bootstrap kubeconfig is looked at for another server or authority.
	look = 5 * time.Second
	// longestRound bounds the requests of one round.
	longestRound = 30 * time.Second
)

// Options of a Keeper. All are required but Log.
type Options struct {
	// Cluster is the agent's Cluster on the hub.
	Cluster string
	// Bootstrap is the path of the bootstrap kubeconfig. The hub's address and authority are always those that
	// stand there now; without the file, those that were stored last.
	Bootstrap string
	Store     Store
	// Lifetime is asked for; the hub may grant a shorter one.
	Lifetime time.Duration
	// Dial makes a client of the hub. It is not gated: see the package's comment.
	Dial func(*rest.Config) (client.WithWatch, error)
	// Random returns numbers in [0, 1).
	Random  func() float64
	Clock   clock.WithTicker
	Log     logr.Logger
	Metrics *Metrics
}

// Keeper gets the agent's credential and keeps it fresh. Clients follow it through connect.Rotating.
type Keeper struct {
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
		client client.WithWatch
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
	held     *plan.Held
	refusals refusals
	waiting  string
	// said is what the log was told last.
	said string
}

// New returns a Keeper. Run makes it work.
func New(options Options) (*Keeper, error) {
	if options.Cluster == "" || options.Bootstrap == "" || options.Store == nil || options.Lifetime <= 0 ||
		options.Dial == nil || options.Random == nil || options.Clock == nil || options.Metrics == nil {
		return nil, errors.New("a keeper of credentials needs a cluster, a bootstrap kubeconfig, a store, a lifetime, a dialer, a clock, a random source and metrics")
	}
	k := &Keeper{Options: options, poked: make(chan struct{}, 1), waiting: "the stored credential"}
	k.requests = requests{keeper: k}
	return k, nil
}

// NotYetError says that there is no credential, and what is waited for.
type NotYetError struct{ For string }

func (e *NotYetError) Error() string { return "no credential for the hub yet: waiting for " + e.For }

// Current implements connect.Source.
func (k *Keeper) Current() (*rest.Config, uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.config == nil {
		return nil, 0, &NotYetError{For: k.waiting}
	}
	return k.config, k.version, nil
}

// Waiting says what the agent waits for to get a credential, empty while it has one that is good as far as it knows.
func (k *Keeper) Waiting() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.config != nil && k.held != nil && !k.held.Refused && k.Clock.Now().Before(k.held.NotAfter) {
		return ""
	}
	return k.waiting
}

// Answered implements connect.Source.
func (k *Keeper) Answered(version uint64, status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version != k.version || k.held == nil {
		return
	}
	refused := k.refusals.answered(status, k.Clock.Now())
	if refused && !k.held.Refused {
		k.poke()
	}
	k.held.Refused = refused
}

// poke makes Run look at once.
func (k *Keeper) poke() {
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

// Run keeps the credential until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.requests.unwatch()
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
func (k *Keeper) round(parent context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(parent, longestRound)
	defer cancel()
	k.readBootstrap()
	held := k.heldNow()
	if !plan.Due(held, k.Clock.Now()) && !k.unsaved {
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
	if held = k.heldNow(); !plan.Due(held, k.Clock.Now()) {
		return look
	}
	as := plan.As(held, plan.Bootstrap{Given: k.problem == nil, Refused: k.spent != "" && k.spent == k.bootstrap.token}, k.Clock.Now())
	taken, wait, err := k.ask(parent, ctx, as)
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
func (k *Keeper) ask(parent, ctx context.Context, as plan.Identity) (taken *Credential, wait time.Duration, err error) {
	config := k.config
	switch as {
	case plan.Joining:
		config, err = restConfig(k.server, &clientcmdapi.AuthInfo{Token: k.bootstrap.token})
	case plan.Own: // That is the present configuration.
	case plan.Nobody:
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
	return k.requests.step(parent, ctx, hub, as)
}

// dial returns a client, the same one for as long as nothing has changed.
func (k *Keeper) dial(as plan.Identity, config *rest.Config) (client.WithWatch, error) {
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
func (k *Keeper) kind() kind {
	if k.problem != nil && k.present != nil {
		return k.present.kind()
	}
	return k.bootstrap.kind
}

// readBootstrap follows the bootstrap kubeconfig.
func (k *Keeper) readBootstrap() {
	read, err := readBootstrap(k.Bootstrap, k.Cluster)
	if read.token != k.bootstrap.token {
		k.failures = 0
	}
	k.bootstrap, k.problem = read, err
	if read.cluster != nil && !sameServer(read.cluster, k.server) {
		k.moved(read.cluster)
	}
}

func sameServer(a, b *clientcmdapi.Cluster) bool {
	return b != nil && a.Server == b.Server && a.TLSServerName == b.TLSServerName && a.ProxyURL == b.ProxyURL &&
		a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify && string(a.CertificateAuthorityData) == string(b.CertificateAuthorityData)
}

// moved takes in another address or authority of the hub.
func (k *Keeper) moved(to *clientcmdapi.Cluster) {
	known := k.server != nil
	k.server = to
	k.servers++
	if k.present == nil {
		return
	}
	if known {
		k.Log.Info("Following the bootstrap kubeconfig to another server or certificate authority", "server", to.Server)
	}
	k.publish(*k.present)
	k.unsaved = true
}

// load reads the store, and takes a credential from there that is better than the present one: at the start, or
// when another agent has renewed it.
func (k *Keeper) load(ctx context.Context) error {
	contents, err := k.Store.Load(ctx)
	if err != nil {
		return err
	}
	k.contents = contents
	stored, found, err := contents.credential(k.Cluster)
	switch {
	case err != nil:
		k.say("", fmt.Sprintf("Ignoring the credential in %s: %v", k.Store, err))
		return nil
	case !found || k.present != nil && !stored.NotAfter.After(k.present.NotAfter):
		return nil
	case k.problem == nil && k.bootstrap.kind != stored.kind():
		k.say("", fmt.Sprintf("Ignoring the credential in %s: it is a %s, and the bootstrap kubeconfig is for a %s", k.Store, stored.kind(), k.bootstrap.kind))
		return nil
	}
	if k.server == nil {
		if k.server = serverOf(contents[kubeconfigKey]); k.server == nil {
			return fmt.Errorf("reading where the hub is: there is a credential in %s, but no server: %w", k.Store, k.problem)
		}
	}
	k.Log.Info("Using the stored credential", "store", k.Store.String(), "kind", string(stored.kind()), "expires", stored.NotAfter)
	k.take(stored, stored.NotBefore)
	return nil
}

// take makes the running clients use a credential that came at some time.
func (k *Keeper) take(taken Credential, at time.Time) {
	held := &plan.Held{NotAfter: taken.NotAfter, RenewAt: plan.RenewAt(taken.NotBefore, taken.NotAfter, at, k.Random())}
	k.mu.Lock()
	k.present, k.held, k.refusals = &taken, held, refusals{}
	k.mu.Unlock()
	k.publish(taken)
	k.Metrics.holds(taken.NotAfter)
	k.Log.Info("Holding a credential for the hub", "kind", string(taken.kind()), "expires", taken.NotAfter, "renewAt", held.RenewAt)
}

// publish gives the clients a new configuration.
func (k *Keeper) publish(taken Credential) {
	config, err := restConfig(k.server, taken.authInfo())
	if err != nil {
		k.say("", fmt.Sprintf("Keeping the former configuration for the hub: %v", err))
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.config, k.waiting = config, ""
	k.version++
}

// save stores the present credential, with what an agent needs that starts without a bootstrap kubeconfig.
func (k *Keeper) save(ctx context.Context) error {
	kubeconfig, err := storedKubeconfig(k.server, k.present.kind())
	if err != nil {
		return err
	}
	contents := Contents{kubeconfigKey: kubeconfig, tokenKey: []byte(k.present.Token), certificateKey: k.present.Certificate, privateKeyKey: k.present.Key}
	if err := k.Store.Save(ctx, contents); err != nil {
		return err
	}
	k.contents, k.unsaved = contents, false
	return nil
}

// keep stores the key of a request before the request is made.
func (k *Keeper) keep(ctx context.Context, pending []byte) error {
	contents := maps.Clone(k.contents)
	contents[pendingKey] = pending
	if err := k.Store.Save(ctx, contents); err != nil {
		if k.present == nil {
			return err
		}
		k.goOn(err)
	}
	k.contents = contents
	return nil
}

// goOn says that the store fails. An agent that has a credential works and renews without it: waiting for a store
// that stays away could cost it the way back to the hub.
func (k *Keeper) goOn(err error) {
	k.say("", fmt.Sprintf("Going on without the store of the credential, trying again: %v", err))
}

func (k *Keeper) heldNow() *plan.Held {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		return nil
	}
	held := *k.held
	return &held
}

// refused takes in that the hub did not do what was asked with an identity.
func (k *Keeper) refused(ctx context.Context, as plan.Identity, err error) time.Duration {
	if apierrors.IsUnauthorized(err) {
		if as == plan.Own {
			k.Answered(k.version, http.StatusUnauthorized)
		} else {
			k.spent = k.bootstrap.token
		}
	}
	k.Metrics.ended(resultError)
	return k.failed(ctx, k.explain(as, err))
}

// failed says why there is no new credential, and returns how long to wait.
func (k *Keeper) failed(ctx context.Context, err error) time.Duration {
	k.failures++
	if ctx.Err() == nil {
		k.say(err.Error(), "Getting a credential for the hub failed; trying again")
	}
	return plan.Backoff(k.failures, k.Random())
}

// say tells the log once of what is waited for, and keeps it for those who ask.
func (k *Keeper) say(waitingFor, message string) {
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
