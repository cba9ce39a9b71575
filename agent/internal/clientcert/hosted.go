package clientcert

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/backoff"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

// HostedRequest gets the first certificate of the agent of a simulated cluster, for which the agent of its host asks. The key is made
// here and is in memory only: a process that has not made a request removes it and makes another one. Only one agent of a host does
// so at a time, the one that has the Lease.
type HostedRequest struct {
	// Host and Cluster are the Clusters on the hub.
	Host, Cluster string
	// Lifetime is asked for; the hub may grant a shorter one.
	Lifetime time.Duration
	Clock    clock.PassiveClock

	key []byte
	// seen is the request that was seen last, since when it has been as it is.
	seen struct {
		uid   types.UID
		state requestState
		since time.Time
	}
	refusals int
}

// Advance takes the next step. It returns the credential once there is one, and what is waited for until then. reader reads from the hub's
// API server, and what writer writes passes the freeze gate.
func (r *HostedRequest) Advance(ctx context.Context, reader client.Reader, writer client.Writer) (taken *Credential, waiting string, err error) {
	name := certrequest.NameOfHostedAgent(r.Host, r.Cluster)
	object := "CertificateSigningRequest " + name
	csr := &certificatesv1.CertificateSigningRequest{}
	err = reader.Get(ctx, client.ObjectKey{Name: name}, csr)
	if apierrors.IsNotFound(err) {
		return nil, object + " waits for the hub's approval", r.submitRequest(ctx, writer, name)
	}
	if apierrors.IsForbidden(err) {
		// The hub grants it soon after the SimulatedCluster is created.
		return nil, describePermission(requestError("get", object, err), onHub), nil
	}
	if err != nil {
		return nil, "", requestError("get", object, err)
	}
	state, mine, now := stateOf(csr), isMadeWithKey(csr.Spec.Request, r.key), r.Clock.Now()
	if r.seen.uid != csr.UID || r.seen.state != state {
		r.seen.uid, r.seen.state, r.seen.since = csr.UID, state, now
	}
	switch {
	case !mine:
		return nil, object + " of an earlier agent is being replaced", r.withdrawRequest(ctx, writer, csr)
	case state == requestIssued:
		read, err := fromCertificate(r.Cluster, csr.Status.Certificate, r.key)
		if err != nil {
			return nil, "", errors.Join(err, r.withdrawRequest(ctx, writer, csr))
		}
		// The next credential is for another key.
		r.key, r.refusals = nil, 0
		return &read, "", nil
	case state == requestDenied || state == requestFailed:
		waiting = describeRefusal(csr, certificatesv1.CertificateDenied, "denied")
		if state == requestFailed {
			waiting = describeRefusal(csr, certificatesv1.CertificateFailed, "not signed")
		}
		if now.Sub(r.seen.since) < backoff.Delay(r.refusals+1, refused, longestRefused) {
			return nil, waiting, nil
		}
		r.refusals++
		return nil, waiting, r.withdrawRequest(ctx, writer, csr)
	case state == requestApproved:
		return nil, object + " is approved, but the hub's signer has not issued the certificate yet", nil
	}
	return nil, object + " waits for the hub's approval", nil
}

func (r *HostedRequest) submitRequest(ctx context.Context, writer client.Writer, name string) error {
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		return fmt.Errorf("reading a key: %w", err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return fmt.Errorf("reading a key: %T cannot sign", parsed)
	}
	csr, err := certrequest.NewForAgent(name, r.Cluster, signer, r.Lifetime)
	if err != nil {
		return err
	}
	// Kept also if there is no answer: the request may have been made.
	r.key = key
	return requestError("create", "CertificateSigningRequest "+name, writer.Create(ctx, csr))
}

// Withdraw removes the request of a simulated cluster that is gone. What the hub does not let it read was not made here.
func (r *HostedRequest) Withdraw(ctx context.Context, reader client.Reader, writer client.Writer) error {
	name, csr := certrequest.NameOfHostedAgent(r.Host, r.Cluster), &certificatesv1.CertificateSigningRequest{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: name}, csr); {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return requestError("get", "CertificateSigningRequest "+name, err)
	}
	return r.withdrawRequest(ctx, writer, csr)
}

// withdrawRequest makes room for a new request, if the one that was seen is still as it was.
func (r *HostedRequest) withdrawRequest(ctx context.Context, writer client.Writer, csr *certificatesv1.CertificateSigningRequest) error {
	err := writer.Delete(ctx, csr, client.Preconditions{UID: &csr.UID, ResourceVersion: &csr.ResourceVersion})
	return requestError("delete", "CertificateSigningRequest "+csr.Name, client.IgnoreNotFound(err))
}
