package clientcert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/hollowfleet/hollowfleet/internal/joining"
)

// kind is a kind of credential.
type kind string

const (
	certificate         kind = "certificate"
	serviceAccountToken kind = "ServiceAccount token"
)

// bootstrap is what a bootstrap kubeconfig says: where the hub is, whom to trust there, and what to join with.
type bootstrap struct {
	cluster *clientcmdapi.Cluster
	token   string
	kind    kind
}

var joinToken = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// errNoToken: the bootstrap kubeconfig is of use for the hub's address and authority only.
var errNoToken = errors.New("it has no token")

// readBootstrap reads the bootstrap kubeconfig of a cluster's agent. With an error, what could be read is returned
// all the same.
func readBootstrap(path, cluster string) (bootstrap, error) {
	var read bootstrap
	config, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}).Load()
	if err != nil {
		return read, fmt.Errorf("reading bootstrap kubeconfig %q: %w", path, err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil || config.Clusters[current.Cluster].Server == "" {
		return read, fmt.Errorf("reading bootstrap kubeconfig %q: its current context names no server", path)
	}
	server := config.Clusters[current.Cluster].DeepCopy()
	if err := checkServer(server); err != nil {
		return read, fmt.Errorf("reading bootstrap kubeconfig %q: %w", path, err)
	}
	if server.CertificateAuthorityData, err = dataOrFile(server.CertificateAuthorityData, server.CertificateAuthority); err != nil {
		return read, fmt.Errorf("reading bootstrap kubeconfig %q: %w", path, err)
	}
	server.CertificateAuthority, server.LocationOfOrigin, server.Extensions = "", "", nil
	if _, err := restConfig(server, &clientcmdapi.AuthInfo{}); err != nil {
		return read, fmt.Errorf("reading bootstrap kubeconfig %q: %w", path, err)
	}
	read.cluster = server
	if user := config.AuthInfos[current.AuthInfo]; user != nil {
		token, err := dataOrFile(nil, user.TokenFile)
		if err != nil {
			return read, fmt.Errorf("reading bootstrap kubeconfig %q: %w", path, err)
		}
		read.token = strings.TrimSpace(string(token))
		if read.token == "" {
			read.token = user.Token
		}
	}
	if read.kind, err = kindOf(read.token, cluster); err != nil {
		return read, fmt.Errorf("reading bootstrap kubeconfig %q: %w", path, err)
	}
	return read, nil
}

// checkServer refuses a server to which the join token would travel in the clear, or that anyone could play.
func checkServer(server *clientcmdapi.Cluster) error {
	if server.InsecureSkipTLSVerify {
		return errors.New("insecure-skip-tls-verify: the agent does not send its token to an unverified server: set certificate-authority-data to the hub's CA instead")
	}
	return joining.CheckURL(server.Server)
}

// kindOf tells what kind of credential the agent of a cluster comes to with a token.
func kindOf(token, cluster string) (kind, error) {
	if token == "" {
		return "", errNoToken
	}
	if joinToken.MatchString(token) {
		return certificate, nil
	}
	claims, err := parseToken(token)
	if err != nil {
		return "", errors.New("its token is neither a join token nor a ServiceAccount token")
	}
	if user := accountUser(cluster); claims.Subject != user {
		return "", fmt.Errorf("its token is for %q, want a join token, or one for %q", claims.Subject, user)
	}
	return serviceAccountToken, nil
}

// dataOrFile returns data, or else the content of a file if one is named.
func dataOrFile(data []byte, file string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	return os.ReadFile(file)
}

// restConfig makes a client configuration, and fails for one that no client could use.
func restConfig(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) (*rest.Config, error) {
	config, err := clientcmd.NewDefaultClientConfig(*newKubeconfig(cluster, user), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading a kubeconfig: %w", err)
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		return nil, fmt.Errorf("reading the certificates of a kubeconfig: %w", err)
	}
	return config, nil
}

func newKubeconfig(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) *clientcmdapi.Config {
	const hub, agent = "hub", "agent"
	config := clientcmdapi.NewConfig()
	config.Clusters[hub], config.AuthInfos[agent] = cluster, user
	config.Contexts[hub] = &clientcmdapi.Context{Cluster: hub, AuthInfo: agent}
	config.CurrentContext = hub
	return config
}

// storedKubeconfig is the kubeconfig that stands in the store beside the credential, for people and for an agent
// whose bootstrap kubeconfig has gone.
func storedKubeconfig(cluster *clientcmdapi.Cluster, of kind) ([]byte, error) {
	user := &clientcmdapi.AuthInfo{ClientCertificate: certificateKey, ClientKey: privateKeyKey}
	if of == serviceAccountToken {
		user = &clientcmdapi.AuthInfo{TokenFile: tokenKey}
	}
	content, err := clientcmd.Write(*newKubeconfig(cluster, user))
	if err != nil {
		return nil, fmt.Errorf("writing the agent's kubeconfig: %w", err)
	}
	return content, nil
}

// serverOf returns the server of a stored kubeconfig, nil if it has none.
func serverOf(content []byte) *clientcmdapi.Cluster {
	config, err := clientcmd.Load(content)
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return nil
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	if cluster != nil {
		cluster.LocationOfOrigin, cluster.Extensions = "", nil
	}
	return cluster
}

// unknownServer stands in requests until the store tells where the hub is.
const unknownServer = "https://hub"

// Server returns the URL of the hub that the bootstrap kubeconfig names, or else that which is stored.
func Server(ctx context.Context, path, cluster string, store Store) (string, error) {
	read, err := readBootstrap(path, cluster)
	if read.cluster != nil {
		return read.cluster.Server, nil
	}
	contents, storeErr := store.Load(ctx)
	if storeErr != nil {
		return unknownServer, nil //nolint:nilerr // The API server of the store may be away. The Manager asks it again, and says so.
	}
	if known := serverOf(contents[kubeconfigKey]); known != nil {
		return known.Server, nil
	}
	return "", fmt.Errorf("%w; and there is no credential in %s", err, store)
}
