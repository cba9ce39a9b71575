package identity

import (
	"crypto/tls"
	"testing"
	"time"

	"k8s.io/client-go/util/certificate"
)

// fakeManager has a certificate or not, and an API server that answers or not.
type fakeManager struct {
	certificate.Manager
	isValid, answers bool
}

func (m *fakeManager) Current() *tls.Certificate {
	if m.isValid {
		return &tls.Certificate{}
	}
	return nil
}

func (m *fakeManager) ServerHealthy() bool { return m.answers }

// Claim: A node whose certificate has expired ends alone, once the API server answers. Broken: it ends while the API server is away; the kubelet's own check ends the process with all its nodes.
func TestANodeWithoutAValidCertificateEnds(t *testing.T) {
	manager := &fakeManager{isValid: true}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	identity := &Identity{manager: manager, user: "system:node:n", valid: now}
	expect := func(ends bool, after time.Duration) {
		t.Helper()
		now = now.Add(after)
		if err := identity.CheckExpiry(now); (err != nil) != ends {
			t.Errorf("after %s: %v", after, err)
		}
	}
	expect(false, time.Hour)
	manager.isValid = false
	expect(false, time.Hour) // Nothing can be renewed while the API server does not answer.
	manager.isValid = true
	expect(false, time.Minute)
	manager.isValid, manager.answers = false, true
	expect(false, endAfterExpiry)
	expect(true, time.Second)
	expect(true, time.Hour)
	manager.isValid = true
	expect(false, time.Second)
}
