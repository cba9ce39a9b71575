package clientcert

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

const (
	// soonest and latest are how often a request is looked at: the less often the longer it has been as it is. No watch
	// would tell of it, because no watch could be ended when the hub shuts the agent out.
	soonest = time.Second
	latest  = 15 * time.Second
)

// requests gets certificates through the one CertificateSigningRequest that the agent may have.
type requests struct {
	manager *Manager
	// seen is the request that was seen last, since when by the agent's clock it has been as it is.
	seen struct {
		uid   types.UID
		state requestState
		since time.Time
	}
	// removed and refusals count for the credential that is being asked for.
	removed, refusals int
}

// advanceRequest does what is next to be done to get a certificate.
func (r *requests) advanceRequest(ctx context.Context, hub client.Client, as hubIdentity) (*Credential, time.Duration, error) {
	var cluster *v1alpha1.Cluster
	if as == joiningIdentity {
		cluster = &v1alpha1.Cluster{}
		if err := hub.Get(ctx, client.ObjectKey{Name: r.manager.Cluster}, cluster); err != nil {
			return nil, 0, requestError("get", clusterObject(r.manager.Cluster), err)
		}
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	err := hub.Get(ctx, client.ObjectKey{Name: r.requestName()}, csr)
	if apierrors.IsNotFound(err) {
		csr = nil
	} else if err != nil {
		return nil, 0, requestError("get", r.requestObject(), err)
	}
	request := r.observe(csr)
	switch nextStep(request, r.removed, r.refusals) {
	case createRequest:
		return nil, 0, r.submitRequest(ctx, hub)
	case removeRequest:
		return nil, 0, r.withdrawRequest(ctx, hub, csr, request)
	case collectCertificate:
		taken, err := fromCertificate(r.manager.Cluster, csr.Status.Certificate, r.manager.contents[pendingKey])
		if err != nil {
			// Nothing will come of it; a new one is asked for once this is gone.
			return nil, 0, fmt.Errorf("taking the issued certificate: %w", errors.Join(err, r.withdrawRequest(ctx, hub, csr, request)))
		}
		return &taken, 0, nil
	case awaitRequest:
	}
	r.manager.setWaiting(describeWait(cluster, csr, request), "Waiting for a credential for the hub")
	return nil, r.untilNextLook(), nil
}

func (r *requests) requestName() string { return certrequest.NameOfAgent(r.manager.Cluster) }

// requestObject is the request in messages.
func (r *requests) requestObject() string { return "CertificateSigningRequest " + r.requestName() }

func clusterObject(cluster string) string { return "Cluster " + cluster }

// observe tells what has happened to the request.
func (r *requests) observe(csr *certificatesv1.CertificateSigningRequest) *observedRequest {
	if csr == nil {
		return nil
	}
	state, now := stateOf(csr), r.manager.Clock.Now()
	mine := isMadeWithKey(csr.Spec.Request, r.manager.contents[pendingKey])
	if r.seen.uid != csr.UID || r.seen.state != state {
		r.seen.uid, r.seen.state, r.seen.since = csr.UID, state, now
		switch {
		case mine && state == requestDenied:
			r.manager.Metrics.countResult(resultDenied)
		case mine && state == requestFailed:
			r.manager.Metrics.countResult(resultFailed)
		}
	}
	return &observedRequest{State: state, Mine: mine, Known: now.Sub(r.seen.since)}
}

func stateOf(csr *certificatesv1.CertificateSigningRequest) requestState {
	state := requestPending
	for _, condition := range csr.Status.Conditions {
		if condition.Status == corev1.ConditionFalse {
			continue
		}
		switch condition.Type {
		case certificatesv1.CertificateDenied:
			return requestDenied
		case certificatesv1.CertificateFailed:
			return requestFailed
		case certificatesv1.CertificateApproved:
			state = requestApproved
		}
	}
	if state == requestApproved && len(csr.Status.Certificate) > 0 {
		return requestIssued
	}
	return state
}

// submitRequest asks for a certificate, with a new key each time.
func (r *requests) submitRequest(ctx context.Context, hub client.Client) error {
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	csr, err := newRequest(r.manager.Cluster, key, r.manager.Lifetime)
	if err != nil {
		return err
	}
	// Stored first: a process that dies after the request was made continues with it when it starts again.
	if err := r.manager.storePendingKey(ctx, key); err != nil {
		return err
	}
	if err := hub.Create(ctx, csr); err != nil {
		return requestError("create", r.requestObject(), err)
	}
	r.manager.Log.Info("Asked the hub for a certificate", "CertificateSigningRequest", r.requestName(), "lifetime", r.manager.Lifetime)
	return nil
}

func newRequest(cluster string, key []byte, lifetime time.Duration) (*certificatesv1.CertificateSigningRequest, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("reading a key: %T cannot sign", parsed)
	}
	return certrequest.NewForAgent(certrequest.NameOfAgent(cluster), cluster, signer, lifetime)
}

// withdrawRequest makes room for a new request, if the one that was seen still stands as it was.
func (r *requests) withdrawRequest(ctx context.Context, hub client.Client, csr *certificatesv1.CertificateSigningRequest, request *observedRequest) error {
	err := hub.Delete(ctx, csr, client.Preconditions{UID: &csr.UID, ResourceVersion: &csr.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return requestError("delete", r.requestObject(), err)
	}
	switch {
	case request.Mine:
		r.refusals++
	case request.State == requestPending || request.State == requestApproved:
		r.removed++
	}
	r.manager.Log.Info("Removed a certificate request to make room for a new one", "CertificateSigningRequest", r.requestName(),
		"state", string(request.State), "own", request.Mine, "requester", csr.Spec.Username)
	return nil
}

// resetCounts is for when the credential is there.
func (r *requests) resetCounts() { r.removed, r.refusals = 0, 0 }

// untilNextLook is how long to wait before the request is looked at again.
func (r *requests) untilNextLook() time.Duration {
	return min(max(r.manager.Clock.Since(r.seen.since)/4, soonest), latest)
}

// describeWait says what a certificate request waits for. cluster is nil for a renewal.
func describeWait(cluster *v1alpha1.Cluster, csr *certificatesv1.CertificateSigningRequest, request *observedRequest) string {
	switch {
	case !request.Mine:
		return fmt.Sprintf("another agent: CertificateSigningRequest %s of %q is open; it will be removed if it stays open for a minute", csr.Name, csr.Spec.Username)
	case request.State == requestApproved:
		return fmt.Sprintf("the certificate: CertificateSigningRequest %s is approved, but the hub's signer has not issued it yet", csr.Name)
	case request.State == requestDenied:
		return "approval: " + describeRefusal(csr, certificatesv1.CertificateDenied, "denied")
	case request.State == requestFailed:
		return "the certificate: " + describeRefusal(csr, certificatesv1.CertificateFailed, "not signed")
	case cluster != nil && !cluster.Accepted():
		return fmt.Sprintf("acceptance: Cluster %s is %s; accept it with 'kubectl hollow cluster accept %s'", cluster.Name, cluster.Spec.Acceptance, cluster.Name)
	}
	return fmt.Sprintf("approval of CertificateSigningRequest %s by the hub", csr.Name)
}

func describeRefusal(csr *certificatesv1.CertificateSigningRequest, of certificatesv1.RequestConditionType, word string) string {
	for _, condition := range csr.Status.Conditions {
		if condition.Type == of {
			return fmt.Sprintf("CertificateSigningRequest %s was %s: %s: %s", csr.Name, word, condition.Reason, condition.Message)
		}
	}
	return fmt.Sprintf("CertificateSigningRequest %s was %s", csr.Name, word)
}
