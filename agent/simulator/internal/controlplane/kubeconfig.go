package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pki"
)

// DefaultUserTTL is how long the certificate of a minted kubeconfig is valid.
const DefaultUserTTL = 365 * 24 * time.Hour

// User is who a minted kubeconfig is for.
type User struct {
	// Name is the user name, the certificate's common name.
	Name   string
	Groups []string
	// TTL is how long the certificate is valid.
	TTL time.Duration
}

// MintKubeconfig makes a kubeconfig with a client certificate of its own. The
// cluster need not run, but must have been started once. The error wraps
// ErrNotRunning if it never was.
func MintKubeconfig(dataDir string, user User) ([]byte, error) {
	if user.Name == "" {
		return nil, fmt.Errorf("%w: --user is needed", ErrInvalid)
	}
	if user.TTL <= 0 {
		return nil, fmt.Errorf("%w: --ttl=%s is not positive", ErrInvalid, user.TTL)
	}
	layout, err := NewLayout(dataDir)
	if err != nil {
		return nil, err
	}
	recorded, err := layout.readState()
	if err != nil {
		return nil, err
	}
	identities := identityFiles{layout: layout, external: externalPKI(recorded.PKIDir)}
	authority, err := pki.LoadAuthority(identities.caPaths())
	if errors.Is(err, fs.ErrNotExist) || recorded.APIServerPort == 0 {
		return nil, fmt.Errorf("%w: no cluster was ever started in %s", ErrNotRunning, layout.Root())
	}
	if err != nil {
		return nil, err
	}
	pair, err := authority.Issue(pki.Request{CommonName: user.Name, Groups: user.Groups, Lifetime: user.TTL}, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return renderKubeconfig(recorded.Name, recorded.serverURL(), user.Name, authority, pair)
}

func (s state) serverURL() string {
	return "https://" + net.JoinHostPort(s.serverAddress(), strconv.Itoa(s.APIServerPort))
}

// serverAddress is the address that kubeconfigs have for the API server.
func (s state) serverAddress() string {
	switch s.Listen {
	case netip.IPv4Unspecified().String():
		return loopback.String()
	case netip.IPv6Unspecified().String():
		return netip.IPv6Loopback().String()
	}
	return s.Listen
}

// renderKubeconfig puts everything into the file itself, so that the file can
// be copied anywhere.
func renderKubeconfig(cluster, server, user string, authority *pki.Authority, pair *pki.Pair) ([]byte, error) {
	return writeKubeconfig(cluster, user,
		&clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority.CertificatePEM},
		&clientcmdapi.AuthInfo{ClientCertificateData: pair.CertificatePEM, ClientKeyData: pair.KeyPEM})
}

func writeKubeconfig(cluster, user string, server *clientcmdapi.Cluster, credential *clientcmdapi.AuthInfo) ([]byte, error) {
	// Its clients are near, and each watch would have a buffer of 32 KiB to unpack with.
	server.DisableCompression = true
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = server
	config.AuthInfos[user] = credential
	context := user + "@" + cluster
	config.Contexts[context] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = context
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of %q: %w", user, err)
	}
	return content, nil
}

// updateFile writes the file only if that changes it.
func updateFile(path string, content []byte) error {
	if current, err := os.ReadFile(path); err == nil && bytes.Equal(current, content) {
		return nil
	}
	return writeFile(path, content)
}

// WriteKubeconfig writes a minted kubeconfig so that only the owner can read it.
func WriteKubeconfig(path string, content []byte) error { return writeFile(path, content) }
