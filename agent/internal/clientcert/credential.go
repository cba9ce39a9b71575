package clientcert

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

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

func (c Credential) kindOf() kind {
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

// isMadeWithKey reports whether a certificate request was made with the key.
func isMadeWithKey(request, key []byte) bool {
	own, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		return false
	}
	signer, isSigner := own.(crypto.Signer)
	parsed, err := certrequest.Parse(request)
	if err != nil || !isSigner {
		return false
	}
	public, ok := parsed.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(signer.Public())
}

// everything is the group that an API server refuses nothing to.
const everything = "system:masters"

// IdentityError says that an identity on the hub is not that of the cluster's agent.
type IdentityError struct{ Message string }

func (e *IdentityError) Error() string { return e.Message }

// CheckIdentity fails with *IdentityError for an identity on the hub that is not that of a cluster's agent: the one of its certificate, or its
// ServiceAccount's.
func CheckIdentity(cluster string, is authenticationv1.UserInfo) error {
	own := v1alpha1.AgentUserPrefix + cluster
	if is.Username != own && is.Username != accountUser(cluster) {
		return &IdentityError{fmt.Sprintf("the hub identifies its user as %q, want %q or %q: let the cluster join with 'kubectl hollow cluster join %s' and --bootstrap-kubeconfig",
			is.Username, own, accountUser(cluster), cluster)}
	}
	if slices.Contains(is.Groups, everything) {
		return &IdentityError{fmt.Sprintf("its user %q is in group %q, which has full access to the hub", is.Username, everything)}
	}
	return nil
}

// requestToken gets a token of the agent's ServiceAccount.
func (m *Manager) requestToken(ctx context.Context, hub client.Client) (*Credential, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: m.Cluster, Name: v1alpha1.AgentServiceAccount}}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(m.Lifetime / time.Second))},
	}
	if err := hub.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, requestError("create", fmt.Sprintf("a token of ServiceAccount %s/%s", account.Namespace, account.Name), err)
	}
	taken, err := fromToken(m.Cluster, request.Status.Token)
	if err != nil {
		return nil, err
	}
	return &taken, nil
}
