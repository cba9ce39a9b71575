package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math"
	"math/big"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// AgentCredential makes a certificate for the agent of a cluster, which no hub trusts, and its key. Each is another one.
func AgentCredential(t *testing.T, cluster string, notAfter time.Time) (certificate, key []byte) {
	t.Helper()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	fail(err)
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: notAfter.Add(-24 * time.Hour), NotAfter: notAfter,
		Subject: pkix.Name{CommonName: v1alpha1.AgentUserPrefix + cluster, Organization: []string{v1alpha1.AgentGroupPrefix + cluster}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	fail(err)
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	fail(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}
