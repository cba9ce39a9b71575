package clientcert

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// What the keeper holds, as the clients of the hub see it, from any goroutine.

// NotYetError says that there is no credential, and what is waited for.
type NotYetError struct{ For string }

func (e *NotYetError) Error() string { return "no credential for the hub yet: waiting for " + e.For }

// Current implements connect.Source.
func (k *Manager) Current() (*rest.Config, uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.config == nil {
		return nil, 0, &NotYetError{For: k.waiting}
	}
	return k.config, k.version, nil
}

// Waiting says what the agent waits for to get a credential, empty while it has one that is good as far as it knows.
func (k *Manager) Waiting() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.config != nil && k.held != nil && !k.held.Refused && k.Clock.Now().Before(k.held.NotAfter) {
		return ""
	}
	return k.waiting
}

// Answered implements connect.Source.
func (k *Manager) Answered(version uint64, status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version != k.version || k.held == nil {
		return
	}
	refused := k.refusals.answered(status, k.Clock.Now())
	if refused && !k.held.Refused {
		k.wake()
	}
	k.held.Refused = refused
}

// take makes the running clients use a credential that came at some time.
func (k *Manager) take(taken Credential, at time.Time) {
	held := &heldCredential{NotAfter: taken.NotAfter, RenewAt: renewalTime(taken.NotBefore, taken.NotAfter, at, k.Random())}
	k.mu.Lock()
	k.present, k.held, k.refusals = &taken, held, refusals{}
	k.mu.Unlock()
	k.publish(taken)
	k.Metrics.holds(taken.NotAfter)
	k.Log.Info("Holding a credential for the hub", "kind", string(taken.kind()), "expires", taken.NotAfter, "renewAt", held.RenewAt)
}

// publish gives the clients a new configuration.
func (k *Manager) publish(taken Credential) {
	config, err := restConfig(k.server, taken.authInfo())
	if err != nil {
		k.setWaiting("", fmt.Sprintf("Keeping the former configuration for the hub: %v", err))
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.config, k.waiting = config, ""
	k.version++
}

func (k *Manager) heldNow() *heldCredential {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		return nil
	}
	held := *k.held
	return &held
}

const (
	// refusalsInARow and refusalTime: one 401 may come from an API server that is just starting.
	refusalsInARow = 3
	refusalTime    = 5 * time.Second
)

// refusals tells from the hub's answers whether it still knows a credential.
type refusals struct {
	inARow int
	since  time.Time
}

// answered takes in the status of an answer and reports whether the credential counts as refused from now on.
func (r *refusals) answered(status int, now time.Time) (refused bool) {
	switch {
	case status == http.StatusUnauthorized:
		if r.inARow == 0 {
			r.since = now
		}
		r.inARow++
	case status < http.StatusInternalServerError:
		// Even a refusal for lack of rights comes only after the credential was accepted.
		*r = refusals{}
	}
	return r.inARow >= refusalsInARow && now.Sub(r.since) >= refusalTime
}

// readBootstrap follows the bootstrap kubeconfig.
func (k *Manager) readBootstrap() {
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
func (k *Manager) moved(to *clientcmdapi.Cluster) {
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
func (k *Manager) load(ctx context.Context) error {
	contents, err := k.Store.Load(ctx)
	if err != nil {
		return err
	}
	k.contents = contents
	stored, found, err := contents.credential(k.Cluster)
	switch {
	case err != nil:
		k.setWaiting("", fmt.Sprintf("Ignoring the credential in %s: %v", k.Store, err))
		return nil
	case !found || k.present != nil && !stored.NotAfter.After(k.present.NotAfter):
		return nil
	case k.problem == nil && k.bootstrap.kind != stored.kind():
		k.setWaiting("", fmt.Sprintf("Ignoring the credential in %s: it is a %s, and the bootstrap kubeconfig is for a %s", k.Store, stored.kind(), k.bootstrap.kind))
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

// save stores the present credential, with what an agent needs that starts without a bootstrap kubeconfig.
func (k *Manager) save(ctx context.Context) error {
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
func (k *Manager) keep(ctx context.Context, pending []byte) error {
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
func (k *Manager) goOn(err error) {
	k.setWaiting("", fmt.Sprintf("Going on without the store of the credential, trying again: %v", err))
}
