package joining

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Server is the hub's API server as an agent reaches it.
type Server struct {
	URL string
	// CA is empty for a server whose certificate the system's own authorities have signed.
	CA []byte
	// TLSName is the name in the server's certificate, if it is another than that of the URL.
	TLSName string
}

// ServerOf is the server that config connects to.
func ServerOf(config *rest.Config) (Server, error) {
	if config.Insecure {
		return Server{}, errors.New("this kubeconfig does not verify the hub's certificate, so it has no certificate authority to give to the agent")
	}
	server := Server{URL: config.Host, CA: config.CAData, TLSName: config.ServerName}
	if len(server.CA) == 0 && config.CAFile != "" {
		var err error
		if server.CA, err = os.ReadFile(config.CAFile); err != nil {
			return Server{}, fmt.Errorf("reading the hub's certificate authority: %w", err)
		}
	}
	return server, CheckURL(server.URL)
}

// CheckURL wants the https URL of an API server: a token must not travel in the clear. It is ASCII, because YAML does not
// keep every other character as it is.
func CheckURL(text string) error {
	if strings.ContainsFunc(text, func(char rune) bool { return char <= ' ' || char >= 0x7f }) {
		return fmt.Errorf("the hub's URL is %q: want https://HOST:PORT in ASCII, without spaces", text)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("reading the hub's URL: %w", err)
	}
	if parsed.Scheme != "https" || parsed.Host == "" {
		return fmt.Errorf("the hub's URL is %q: want https://HOST:PORT", text)
	}
	return nil
}

// Loopback reports whether only processes of this machine reach the server.
func (s Server) Loopback() bool {
	parsed, err := url.Parse(s.URL)
	if err != nil {
		return false
	}
	address := net.ParseIP(parsed.Hostname())
	return parsed.Hostname() == "localhost" || address != nil && address.IsLoopback()
}

// Kubeconfig is what an agent starts with: the server, and a token.
func (s Server) Kubeconfig(cluster, token string) ([]byte, error) {
	const hub = "hub"
	config := clientcmdapi.NewConfig()
	config.Clusters[hub] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: s.CA, TLSServerName: s.TLSName}
	config.AuthInfos[cluster] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[hub] = &clientcmdapi.Context{Cluster: hub, AuthInfo: cluster, Namespace: cluster}
	config.CurrentContext = hub
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig for cluster %s: %w", cluster, err)
	}
	return content, nil
}

// plainInShell are the characters, besides letters and digits, that no shell gives a meaning to within a word.
const plainInShell = "-_./:=@%+,"

// ShellQuote returns word such that a POSIX shell reads it as that one word.
func ShellQuote(word string) string {
	special := func(r rune) bool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(plainInShell, r):
			return false
		}
		return true
	}
	if word != "" && strings.IndexFunc(word, special) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
