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

// What the clients of the hub see of a Manager, from any goroutine.

// NotYetError says that there is no credential, and what is waited for.
type NotYetError struct{ For string }

func (e *NotYetError) Error() string { return "no credential for the hub yet: waiting for " + e.For }

// Current implements clients.Source.
func (m *Manager) Current() (*rest.Config, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.config == nil {
		return nil, 0, &NotYetError{For: m.waiting}
	}
	return m.config, m.version, nil
}

// Waiting says what the agent waits for to get a credential, empty while it has one that is good as far as it knows.
func (m *Manager) Waiting() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.config != nil && m.held != nil && !m.held.Refused && m.Clock.Now().Before(m.held.NotAfter) {
		return ""
	}
	return m.waiting
}

// Answered implements clients.Source.
func (m *Manager) Answered(version uint64, status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if version != m.version || m.held == nil {
		return
	}
	refused := m.refusals.countAnswer(status, m.Clock.Now())
	if refused && !m.held.Refused {
		m.wakeRun()
	}
	m.held.Refused = refused
}

// adoptCredential makes the running clients use a credential that came at some time.
func (m *Manager) adoptCredential(taken Credential, at time.Time) {
	held := &heldCredential{NotAfter: taken.NotAfter, RenewAt: renewalTime(taken.NotBefore, taken.NotAfter, at, m.Random())}
	m.mu.Lock()
	m.present, m.held, m.refusals = &taken, held, refusals{}
	m.mu.Unlock()
	m.publishConfig(taken)
	m.Metrics.setExpiry(taken.NotAfter)
	m.Log.Info("Holding a credential for the hub", "kind", string(taken.kindOf()), "expires", taken.NotAfter, "renewAt", held.RenewAt)
}

// publishConfig gives the clients a new configuration.
func (m *Manager) publishConfig(taken Credential) {
	config, err := restConfig(m.server, taken.authInfo())
	if err != nil {
		m.setWaiting("", fmt.Sprintf("Keeping the previous configuration for the hub: %v", err))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config, m.waiting = config, ""
	m.version++
}

func (m *Manager) heldNow() *heldCredential {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		return nil
	}
	held := *m.held
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

// countAnswer takes in the status of an answer and reports whether the credential counts as refused from now on.
func (r *refusals) countAnswer(status int, now time.Time) (refused bool) {
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
func (m *Manager) readBootstrap() {
	read, err := readBootstrap(m.Bootstrap, m.Cluster)
	if read.token != m.bootstrap.token {
		m.failures = 0
	}
	m.bootstrap, m.problem = read, err
	if read.cluster != nil && !sameServer(read.cluster, m.server) {
		m.followServer(read.cluster)
	}
}

func sameServer(a, b *clientcmdapi.Cluster) bool {
	return b != nil && a.Server == b.Server && a.TLSServerName == b.TLSServerName && a.ProxyURL == b.ProxyURL &&
		a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify && string(a.CertificateAuthorityData) == string(b.CertificateAuthorityData)
}

// followServer takes in another address or authority of the hub.
func (m *Manager) followServer(to *clientcmdapi.Cluster) {
	known := m.server != nil
	m.server = to
	m.servers++
	if m.present == nil {
		return
	}
	if known {
		m.Log.Info("Following the bootstrap kubeconfig to another server or certificate authority", "server", to.Server)
	}
	m.publishConfig(*m.present)
	m.unsaved = true
}

// loadCredential reads the store, and takes a credential from there that is better than the current one: at the start, or
// when another agent has renewed it.
func (m *Manager) loadCredential(ctx context.Context) error {
	contents, err := m.Store.Load(ctx)
	if err != nil {
		return &StoreError{Store: m.Store.String(), Err: err}
	}
	m.contents = contents
	stored, found, err := contents.readCredential(m.Cluster)
	switch {
	case err != nil:
		m.setWaiting("", fmt.Sprintf("Ignoring the credential in %s: %v", m.Store, err))
		return nil
	case !found || m.present != nil && !stored.NotAfter.After(m.present.NotAfter):
		return nil
	case m.problem == nil && m.bootstrap.kind != stored.kindOf():
		m.setWaiting("", fmt.Sprintf("Ignoring the credential in %s: it is a %s, and the bootstrap kubeconfig is for a %s", m.Store, stored.kindOf(), m.bootstrap.kind))
		return nil
	}
	if m.server == nil {
		if m.server = serverOf(contents[kubeconfigKey]); m.server == nil {
			return fmt.Errorf("reading where the hub is: there is a credential in %s, but no server: %w", m.Store, m.problem)
		}
	}
	m.Log.Info("Using the stored credential", "store", m.Store.String(), "kind", string(stored.kindOf()), "expires", stored.NotAfter)
	m.adoptCredential(stored, stored.NotBefore)
	return nil
}

// storeCredential stores the current credential, with what an agent needs that starts without a bootstrap kubeconfig.
func (m *Manager) storeCredential(ctx context.Context) error {
	kubeconfig, err := storedKubeconfig(m.server, m.present.kindOf())
	if err != nil {
		return err
	}
	contents := Contents{kubeconfigKey: kubeconfig, tokenKey: []byte(m.present.Token), certificateKey: m.present.Certificate, privateKeyKey: m.present.Key}
	if err := m.Store.Save(ctx, contents); err != nil {
		return &StoreError{Store: m.Store.String(), Err: err}
	}
	m.contents, m.unsaved = contents, false
	return nil
}

// storePendingKey stores the key of a request before the request is made.
func (m *Manager) storePendingKey(ctx context.Context, pending []byte) error {
	contents := maps.Clone(m.contents)
	contents[pendingKey] = pending
	if err := m.Store.Save(ctx, contents); err != nil {
		err = &StoreError{Store: m.Store.String(), Err: err}
		if m.present == nil {
			return err
		}
		m.continueWithoutStore(err)
	}
	m.contents = contents
	return nil
}

// continueWithoutStore says that the store fails. An agent that has a credential works and renews without it: waiting for a store
// that stays away could cost it the way back to the hub.
func (m *Manager) continueWithoutStore(err error) {
	m.setWaiting("", fmt.Sprintf("Continuing without the store of the credential, trying again; it needs %v", explainStoreError(err)))
}
