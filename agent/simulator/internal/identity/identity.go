// Package identity gives a hollow-node the identity of its Node: a client certificate for
// system:node:<name> that it gets through the API server's certificate signing requests and renews before
// it expires. The private key is made here and stays in the given directory.
package identity

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	kubeletcertificate "k8s.io/kubernetes/pkg/kubelet/certificate"
)

const (
	// pairPrefix names the certificate files as the kubelet's own certificate manager does, which takes
	// them over.
	pairPrefix = "kubelet-client"
	// pendingKeyFile keeps the private key until its certificate is there, so that a restarted process
	// asks for the same request again instead of making another.
	pendingKeyFile = "kubelet-client.key.pending"

	// attemptTimeout bounds one wait for a certificate. After it the bootstrap kubeconfig is read again:
	// it may have been renewed because its token ran out.
	attemptTimeout = 2 * time.Minute
	// endAfterExpiry is how long a node continues without a valid certificate while the API server answers.
	endAfterExpiry = 5 * time.Minute
	// noExit keeps the kubelet's own check of the same from ending the process, which may have other nodes.
	noExit = 0
)

// Options say who joins where.
type Options struct {
	// NodeName is the Node whose identity is asked for.
	NodeName string
	// BootstrapKubeconfig is the file with the API server's address, its CA and a credential that may
	// create certificate signing requests. It is read again for every attempt.
	BootstrapKubeconfig string
	// Directory is where key and certificate are kept.
	Directory string
	// UserAgent is sent with every request.
	UserAgent string
}

// Identity is that of a node that has joined.
type Identity struct {
	// Config is a client configuration that carries the identity, and keeps carrying it when the certificate is renewed.
	Config *rest.Config
	// CA has the certificates of the cluster's authority, in PEM; empty if the bootstrap kubeconfig names none.
	CA      []byte
	manager certificate.Manager
	user    string
	valid   time.Time
}

// Join returns the identity of a node. Without a valid certificate in the directory it asks for one and waits, however
// long that takes, until ctx ends. It fails at once if the bootstrap kubeconfig cannot be used at all.
func Join(ctx context.Context, options Options) (*Identity, error) {
	target, err := options.bootstrapConfig()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(options.Directory, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory for the node's certificate: %w", err)
	}
	store, err := certificate.NewFileStoreWithLogger(klog.FromContext(ctx), pairPrefix, options.Directory, options.Directory, "", "")
	if err != nil {
		return nil, fmt.Errorf("opening the store of the node's certificate: %w", err)
	}
	if !options.isValid(store) {
		if err := options.obtainCertificate(ctx, store); err != nil {
			return nil, err
		}
	}
	return options.startRenewal(ctx, target)
}

// CheckBootstrap reports what keeps the bootstrap kubeconfig from being used.
func CheckBootstrap(path string) error {
	_, err := Options{BootstrapKubeconfig: path}.bootstrapConfig()
	return err
}

func (o Options) bootstrapConfig() (*rest.Config, error) {
	loaded, err := clientcmd.LoadFromFile(o.BootstrapKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the bootstrap kubeconfig %s: %w", o.BootstrapKubeconfig, err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("bootstrap kubeconfig %s: %w", o.BootstrapKubeconfig, err)
	}
	// The agent writes a token. Whoever got at the file must not have a program run by it.
	if config.ExecProvider != nil || config.AuthProvider != nil {
		return nil, fmt.Errorf("bootstrap kubeconfig %s: users: it names a program or plugin that authenticates: use a token", o.BootstrapKubeconfig)
	}
	config.UserAgent = o.UserAgent
	return config, nil
}

// commonName is the user that the certificate stands for.
func (o Options) commonName() string { return "system:node:" + o.NodeName }

func (o Options) isValid(store certificate.FileStore) bool {
	current, err := store.Current()
	if err != nil || current.Leaf == nil {
		return false
	}
	return time.Now().Before(current.Leaf.NotAfter) && current.Leaf.Subject.CommonName == o.commonName()
}

// obtainCertificate asks for a certificate until one is issued. Every failure is logged, as this is what an operator
// looks for when a node does not join.
func (o Options) obtainCertificate(ctx context.Context, store certificate.FileStore) error {
	logger := klog.FromContext(ctx)
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}
	for {
		err := o.requestCertificate(ctx, store)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause := backoff.Step()
		logger.Error(err, "Getting the node's certificate failed, trying again", "after", pause.Round(time.Millisecond))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// requestCertificate makes one attempt with what the bootstrap kubeconfig says now.
func (o Options) requestCertificate(ctx context.Context, store certificate.FileStore) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	config, err := o.bootstrapConfig()
	if err != nil {
		return err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("making the bootstrap client: %w", err)
	}
	// Later connections carry the node's certificate; this one would stay open for nothing.
	defer utilnet.CloseIdleConnectionsFor(httpClient.Transport)
	client, err := clientset.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return fmt.Errorf("making the bootstrap client: %w", err)
	}
	keyPath := filepath.Join(o.Directory, pendingKeyFile)
	keyPEM, _, err := keyutil.LoadOrGenerateKeyFile(keyPath)
	if err != nil {
		return fmt.Errorf("making the node's private key: %w", err)
	}
	certificatePEM, err := o.requestWithKey(ctx, client, keyPEM)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no certificate was issued within %s; is the request approved?", attemptTimeout)
	}
	if err != nil {
		return err
	}
	if _, err := store.Update(certificatePEM, keyPEM); err != nil {
		return fmt.Errorf("storing the node's certificate: %w", err)
	}
	if err := os.Remove(keyPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the pending key: %w", err)
	}
	return nil
}

func (o Options) requestWithKey(ctx context.Context, client clientset.Interface, keyPEM []byte) ([]byte, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the node's private key: %w", err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the node's private key of type %T cannot sign", parsed)
	}
	subject := &pkix.Name{CommonName: o.commonName(), Organization: []string{"system:nodes"}}
	requestPEM, err := certutil.MakeCSR(key, subject, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making the certificate request: %w", err)
	}
	name, err := requestName(key.Public(), o.NodeName)
	if err != nil {
		return nil, err
	}
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	made, uid, err := csr.RequestCertificateWithContext(ctx, client, requestPEM, name,
		certificatesv1.KubeAPIServerClientKubeletSignerName, nil, usages, key)
	if err != nil {
		return nil, fmt.Errorf("requesting the node's certificate: %w", err)
	}
	certificatePEM, err := csr.WaitForCertificate(ctx, client, made, uid)
	if err != nil {
		return nil, fmt.Errorf("waiting for certificate signing request %s: %w", made, err)
	}
	return certificatePEM, nil
}

// requestName is the same for the same key and node, so that asking again finds the first request.
func requestName(key crypto.PublicKey, nodeName string) (string, error) {
	encoded, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding the node's public key: %w", err)
	}
	sum := sha256.Sum256(append(encoded, nodeName...))
	return "node-csr-" + hex.EncodeToString(sum[:16]), nil
}

// startRenewal returns an identity for the API server of target whose connections use the newest
// certificate of the directory, and starts renewing that certificate.
func (o Options) startRenewal(ctx context.Context, target *rest.Config) (*Identity, error) {
	config := rest.AnonymousClientConfig(target)
	loaded := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(loaded); err != nil {
		return nil, fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	config.UserAgent = o.UserAgent
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	renewal := rest.CopyConfig(config)
	manager, err := kubeletcertificate.NewKubeletClientCertificateManager(o.Directory, types.NodeName(o.NodeName), nil, nil, "", "",
		func(current *tls.Certificate) (clientset.Interface, error) {
			if current != nil {
				return clientset.NewForConfig(renewal)
			}
			// Nothing valid is left to ask with but the bootstrap credential.
			bootstrap, err := o.bootstrapConfig()
			if err != nil {
				return nil, err
			}
			return clientset.NewForConfig(bootstrap)
		})
	if err != nil {
		return nil, fmt.Errorf("starting the renewal of the node's certificate: %w", err)
	}
	closeConnections, err := kubeletcertificate.UpdateTransport(klog.FromContext(ctx), ctx.Done(), config, manager, noExit)
	if err != nil {
		return nil, fmt.Errorf("preparing connections with the node's certificate: %w", err)
	}
	if transport, ok := config.Transport.(*http.Transport); ok {
		// Unpacking takes buffers for every watch, and the API server is near.
		transport.DisableCompression = true
	}
	// Renewal shares the connection of the kubelet.
	renewal.Transport = config.Transport
	renewal.TLSClientConfig = config.TLSClientConfig
	manager.Start()
	// Other nodes of the process live on when this one ends: it must not renew its certificate then.
	context.AfterFunc(ctx, func() {
		manager.Stop()
		closeConnections()
	})
	return &Identity{Config: config, CA: loaded.CAData, manager: manager, user: o.commonName(), valid: time.Now()}, nil
}

// CheckExpiry has to be called about every ten seconds. It returns an error if the certificate has expired and is not renewed although
// the API server answers. The node has to end then, and to start again with the bootstrap kubeconfig.
func (i *Identity) CheckExpiry(now time.Time) error {
	if i.manager.Current() != nil {
		i.valid = now
		return nil
	}
	if without := now.Sub(i.valid); without > endAfterExpiry && i.manager.ServerHealthy() {
		return fmt.Errorf("the node's certificate has expired and was not renewed within %s, although the API server answers; are the requests of %s approved?",
			without.Round(time.Second), i.user)
	}
	return nil
}
