package clientcert

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
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
