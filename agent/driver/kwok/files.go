package kwok

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
)

// ServiceAccount is the identity of kwok's controller, in the agent's namespace of the target.
const ServiceAccount = "hollowfleet-kwok"

const (
	configurationFile, kubeconfigFile, tokenFile, logFile = "kwok.yaml", "kubeconfig", "token", "kwok.log"

	// podCIDR is for the pods of Nodes that have no range of their own: addresses for benchmarks, which no network routes.
	podCIDR = "198.18.0.0/15"
	// tokenLifetime is asked for. Nodes are to stay Ready while the agent is frozen, so it is long.
	tokenLifetime = 7 * 24 * time.Hour
	// shortestRenewal is how soon a token is renewed at the earliest.
	shortestRenewal = 10 * time.Second
	// mostLog is how large a log grows before another one is started; one older generation is kept.
	mostLog = 4 << 20
)

//go:embed stages/*.yaml
var stages embed.FS

// Configuration returns the file that kwok's controller is started with: its stages and options.
func Configuration() ([]byte, error) {
	var parts []string
	for _, name := range []string{"kwok", "node", "pod"} {
		content, err := stages.ReadFile("stages/" + name + ".yaml")
		if err != nil {
			return nil, fmt.Errorf("reading the stages of kwok: %w", err)
		}
		parts = append(parts, string(content))
	}
	return []byte(strings.Join(parts, "---\n")), nil
}

// controllerFiles are what a controller is started with.
type controllerFiles struct {
	configuration, kubeconfig string
}

// writeFiles writes them into the controller's directory, with a fresh token. While the agent is frozen, one that it has serves on.
func (c *controller) writeFiles(ctx context.Context) (controllerFiles, error) {
	files := controllerFiles{configuration: filepath.Join(c.options.Dir, configurationFile), kubeconfig: filepath.Join(c.options.Dir, kubeconfigFile)}
	if err := os.MkdirAll(c.options.Dir, 0o700); err != nil {
		return files, fmt.Errorf("making the directory of kwok's controller: %w", err)
	}
	configuration, err := Configuration()
	if err != nil {
		return files, err
	}
	kubeconfig, err := c.renderKubeconfig()
	if err != nil {
		return files, err
	}
	if err := c.writeToken(ctx); err != nil && !c.clock.Now().Before(c.tokenExpiry) {
		return files, err
	}
	if err := errors.Join(atomicfile.Write(files.configuration, configuration, 0o600), atomicfile.Write(files.kubeconfig, kubeconfig, 0o600)); err != nil {
		return files, fmt.Errorf("writing the files of kwok's controller: %w", err)
	}
	return files, nil
}

// writeToken gets a token of the controller's ServiceAccount and writes it where the controller rereads it.
func (c *controller) writeToken(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.target.Namespace, Name: ServiceAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second))}}
	if err := c.target.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("requesting a token of ServiceAccount %s/%s for kwok's controller, which config/rbac/agent-kwok makes: %w", account.Namespace, account.Name, err)
	}
	if err := atomicfile.Write(filepath.Join(c.options.Dir, tokenFile), []byte(request.Status.Token), 0o600); err != nil {
		return fmt.Errorf("writing the token of kwok's controller: %w", err)
	}
	c.tokenExpiry = request.Status.ExpirationTimestamp.Time
	return nil
}

// renewAfter is how long the token is kept: half of the time that it has left.
func (c *controller) renewAfter() time.Duration {
	return max(c.tokenExpiry.Sub(c.clock.Now())/2, shortestRenewal)
}

func (c *controller) renderKubeconfig() ([]byte, error) {
	const name = "target"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.options.ServerURL, CertificateAuthorityData: c.options.ServerCA}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(c.options.Dir, tokenFile)}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of kwok's controller: %w", err)
	}
	return data, nil
}

// boundedLog is a log of at most twice mostLog.
type boundedLog struct {
	path string
	mu   sync.Mutex
	file *os.File
	size int
}

// Write never fails: an error would end the controller's output, and with it the controller.
func (l *boundedLog) Write(content []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.size > mostLog {
		l.rotateLog()
	}
	if l.file != nil {
		written, _ := l.file.Write(content)
		l.size += written
	}
	return len(content), nil
}

func (l *boundedLog) rotateLog() {
	if l.file != nil {
		l.file.Close()
	}
	_ = os.Rename(l.path, l.path+".1")
	l.file, _ = os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	l.size = 0
}

// Close closes the file.
func (l *boundedLog) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
}
