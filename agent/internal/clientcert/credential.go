package clientcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const keyBlock = "EC PRIVATE KEY"

// Credential is what the agent shows to the hub: a certificate with its key, or a token.
type Credential struct {
	Certificate, Key    []byte
	Token               string
	NotBefore, NotAfter time.Time
}

// authInfo is the credential as a kubeconfig has it.
func (c Credential) authInfo() *clientcmdapi.AuthInfo {
	return &clientcmdapi.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key, Token: c.Token}
}

func (c Credential) kind() kind {
	if c.Token != "" {
		return serviceAccountToken
	}
	return certificate
}

// fromCertificate reads a certificate, and fails if it is not that of the cluster's agent, or not for key.
func fromCertificate(cluster string, certificate, key []byte) (Credential, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return Credential{}, fmt.Errorf("reading the agent's certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return Credential{}, fmt.Errorf("reading the agent's certificate: %w", err)
	}
	user, group := v1alpha1.AgentUserPrefix+cluster, v1alpha1.AgentGroupPrefix+cluster
	if leaf.Subject.CommonName != user || !slices.Contains(leaf.Subject.Organization, group) {
		return Credential{}, fmt.Errorf("reading the agent's certificate: it is for user %q of groups %q, want user %q of group %q",
			leaf.Subject.CommonName, leaf.Subject.Organization, user, group)
	}
	return Credential{Certificate: certificate, Key: key, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}, nil
}

// fromToken reads a token, and fails if it is not that of the cluster's agent, or never expires.
func fromToken(cluster, token string) (Credential, error) {
	claims, err := parseToken(token)
	if err != nil {
		return Credential{}, err
	}
	if user := accountUser(cluster); claims.Subject != user {
		return Credential{}, fmt.Errorf("reading the agent's token: it is for %q, want %q", claims.Subject, user)
	}
	if claims.Expiry == 0 {
		return Credential{}, errors.New("reading the agent's token: it never expires")
	}
	return Credential{Token: token, NotBefore: time.Unix(claims.IssuedAt, 0), NotAfter: time.Unix(claims.Expiry, 0)}, nil
}

func accountUser(cluster string) string {
	return "system:serviceaccount:" + cluster + ":" + v1alpha1.AgentServiceAccount
}

type claims struct {
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expiry   int64  `json:"exp"`
}

// parseToken reads a ServiceAccount token. Its signature is for the API server to check.
func parseToken(token string) (claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, fmt.Errorf("reading a ServiceAccount token: want 3 parts, got %d", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}, fmt.Errorf("reading a ServiceAccount token: %w", err)
	}
	var read claims
	if err := json.Unmarshal(payload, &read); err != nil {
		return claims{}, fmt.Errorf("reading a ServiceAccount token: %w", err)
	}
	return read, nil
}

// newKey makes a private key, in PEM.
func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

func parseKey(content []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != keyBlock {
		return nil, errors.New("reading a key: no " + keyBlock + " in it")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	return key, nil
}

// madeWith tells whether a certificate request was made with the key.
func madeWith(request, key []byte) bool {
	own, err := parseKey(key)
	if err != nil {
		return false
	}
	block, _ := pem.Decode(request)
	if block == nil {
		return false
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return false
	}
	public, ok := parsed.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(own.Public())
}
