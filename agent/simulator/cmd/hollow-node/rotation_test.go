package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shortLife is how long a certificate lasts. The signer dates it back by five minutes, so that it is due for
// renewal between at once and 80 seconds after it was issued.
const shortLife = 2 * time.Minute

// clientCertificate reads the certificate that the process uses.
func (p *process) clientCertificate() (*x509.Certificate, error) {
	data, err := os.ReadFile(filepath.Join(p.stateDir(), "pki", "kubelet-client-current.pem"))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate at the beginning of the file")
	}
	return x509.ParseCertificate(block.Bytes)
}

// approveRenewals approves what the node asks for with its own identity, and fails on any other request.
func (p *process) approveRenewals(ctx context.Context) error {
	own, err := p.requests(ctx)
	if err != nil {
		return err
	}
	for _, request := range own {
		if len(request.Status.Conditions) > 0 {
			continue
		}
		if request.Spec.Username != "system:node:"+p.name {
			return fmt.Errorf("request %s comes from %s", request.Name, request.Spec.Username)
		}
		request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
		})
		if _, err := p.client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, request.Name, &request, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// Claim: Certificates renew while the Node stays Ready. Broken: renewal off.
// Claim: Connections continue with renewed certificates. Broken: the first certificate is kept in memory.
func TestANodeRenewsItsCertificate(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--controller-manager-arg", "cluster-signing-duration="+shortLife.String())
	t.Cleanup(c.stop)
	p := newProcess(t, c, configurationOf("renews"), goodToken)
	node := p.join(t)
	first, err := p.clientCertificate()
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(first.NotAfter); left > shortLife {
		t.Fatalf("the first certificate lasts %s: the control plane does not sign for %s", left, shortLife)
	}
	// Nothing but the certificate is left to ask for another with.
	p.bootstrapKubeconfig(t, p.bootstrapPath(), "abcdef.ffffffffffffffff")

	var last *x509.Certificate
	eventually(t, "the first certificate has expired", shortLife+time.Minute, func(ctx context.Context) error {
		if err := p.approveRenewals(ctx); err != nil {
			t.Fatal(err)
		}
		if problem := notReady(ctx, p); problem != nil {
			t.Fatalf("%s before the first certificate expires: %v", time.Until(first.NotAfter), problem)
		}
		if last, err = p.clientCertificate(); err != nil {
			return err
		}
		if left := time.Until(first.NotAfter); left > 0 {
			return fmt.Errorf("it has %s left", left)
		}
		return nil
	})
	if last.SerialNumber.Cmp(first.SerialNumber) == 0 || !last.NotAfter.After(first.NotAfter) {
		t.Fatalf("certificate %s that expires at %s was not renewed", first.SerialNumber, first.NotAfter)
	}
	if last.Subject.CommonName != first.Subject.CommonName {
		t.Errorf("the certificate is for %s, was for %s", last.Subject.CommonName, first.Subject.CommonName)
	}

	// The API server checks the certificate of each request, also on a connection that is open.
	eventually(t, "the lease is renewed with the new certificate", time.Minute, func(ctx context.Context) error {
		return errors.Join(p.approveRenewals(ctx), p.leaseRenewedAfter(ctx, first.NotAfter))
	})
	pod := p.create(t, p.pod("late"), isReady)
	if pod.CreationTimestamp.Time.Before(first.NotAfter.Truncate(time.Second)) {
		t.Errorf("the pod was created at %s, want after %s", pod.CreationTimestamp, first.NotAfter)
	}
	after, err := p.node(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != node.UID || after.Status.NodeInfo.BootID != node.Status.NodeInfo.BootID {
		t.Errorf("another Node or another process: UID %s, boot ID %s, were %s, %s",
			after.UID, after.Status.NodeInfo.BootID, node.UID, node.Status.NodeInfo.BootID)
	}
	if err := errors.Join(notReady(context.Background(), p), p.expectProbe("/healthz", 200)); err != nil {
		t.Error(err)
	}
}

// notReady says why the Node is not ready; nil if it is.
func notReady(ctx context.Context, p *process) error {
	node, err := p.node(ctx)
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the Node's conditions are %v", node.Status.Conditions)
}
