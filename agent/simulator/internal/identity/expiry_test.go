package identity

import (
	"context"
	"crypto/tls"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/certificate"
)

// fakeManager has a certificate or not, and an API server that answers or not.
type fakeManager struct {
	certificate.Manager
	isValid, answers atomic.Bool
}

func (m *fakeManager) Current() *tls.Certificate {
	if m.isValid.Load() {
		return &tls.Certificate{}
	}
	return nil
}

func (m *fakeManager) ServerHealthy() bool { return m.answers.Load() }

// Claim: A node whose certificate has expired ends alone, once the API server answers. Broken: it ends while the API server is away; the kubelet's own check ends the process with all its nodes.
func TestANodeWithoutAValidCertificateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var expired atomic.Int32
		manager := &fakeManager{}
		manager.isValid.Store(true)
		go Options{NodeName: "n", Expired: func(error) { expired.Add(1) }}.watchExpiry(ctx, manager)
		expect := func(want int32, after time.Duration) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			if got := expired.Load(); got != want {
				t.Errorf("expired %d times, want %d", got, want)
			}
		}
		expect(0, time.Hour)
		manager.isValid.Store(false)
		expect(0, time.Hour) // Nothing can be renewed while the API server does not answer.
		manager.isValid.Store(true)
		expect(0, time.Minute)
		manager.isValid.Store(false)
		manager.answers.Store(true)
		expect(0, endAfterExpiry-expiryPeriod)
		expect(1, time.Minute)
		expect(1, time.Hour)
	})
}
