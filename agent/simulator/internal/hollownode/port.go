package hollownode

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/certificate"
	"k8s.io/kubernetes/pkg/kubelet"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// Limits of the kubelet's own server.
const (
	portIdleTimeout   = 90 * time.Second
	portHeaderTimeout = 30 * time.Second
	portTimeout       = 4 * time.Hour
	portHeaderBytes   = 1 << 20
)

// kubeletPort is the port of the kubelet's API: the kubelet's own server, for callers that the API server authenticates and authorizes.
// A node without one has nil.
type kubeletPort struct {
	node     *node
	listener net.Listener
	server   *http.Server
	// certificates has the serving certificate, once there is one.
	certificates certificate.Manager
}

// openPort listens, if the configuration wants the port: the kubelet reports its number.
func (n *node) openPort() error {
	if !n.configuration.EffectiveFidelity().Kubelet.EnableServer {
		return nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(n.options.BindAddress, strconv.Itoa(n.options.KubeletPort)))
	if err != nil {
		return fmt.Errorf("serving the kubelet's API: %w: free the port, choose another one with --kubelet-port, or set kubelet.enableServer to false", err)
	}
	n.settings.Port = int32(listener.Addr().(*net.TCPAddr).Port)
	n.port = &kubeletPort{node: n, listener: listener}
	return nil
}

// serveAPI serves the API of a kubelet that has not started. What callers need who never come costs nothing: it is made for the first one.
func (p *kubeletPort) serveAPI(ctx context.Context, k *kubelet.Kubelet, authority []byte) error {
	if p == nil {
		return nil
	}
	clientCA, err := clientAuthority(authority)
	if err != nil {
		return fmt.Errorf("serving the kubelet's API: %w", err)
	}
	if err := wrapLogs(k, p.node.runtime); err != nil {
		return fmt.Errorf("serving logs: %w", err)
	}
	if p.certificates, err = p.node.requestServing(); err != nil {
		return fmt.Errorf("serving the kubelet's API: %w", err)
	}
	handler := sync.OnceValues(func() (http.Handler, error) { return p.node.newAPIHandler(ctx, k, clientCA) })
	p.server = &http.Server{
		Handler:           p.guardHandler(handler),
		IdleTimeout:       portIdleTimeout,
		ReadHeaderTimeout: portHeaderTimeout,
		ReadTimeout:       portTimeout,
		WriteTimeout:      portTimeout,
		MaxHeaderBytes:    portHeaderBytes,
		ErrorLog:          log.New(io.Discard, "", 0), // The caller sees that its handshake has failed.
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			ClientAuth:     tls.RequestClientCert,
			GetCertificate: p.servingCertificate,
		},
	}
	p.certificates.Start()
	go func() { _ = p.server.ServeTLS(p.listener, "", "") }()
	return nil
}

// guardHandler answers nothing for a node that has ended: what asks its kubelet would end, and leave its locks.
func (p *kubeletPort) guardHandler(handler func() (http.Handler, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p.node.life.hasEnded() {
			http.Error(w, "the node has ended", http.StatusServiceUnavailable)
			return
		}
		serve, err := handler()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		serve.ServeHTTP(w, r)
	}
}

func (p *kubeletPort) servingCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := p.certificates.Current(); current != nil {
		return current, nil
	}
	return nil, fmt.Errorf("the serving certificate of node %s is not issued: is its request approved?", p.node.configuration.NodeName)
}

// closePort ends the port. Nothing of it is left.
func (p *kubeletPort) closePort() {
	if p == nil {
		return
	}
	if p.server != nil {
		_ = p.server.Close()
	}
	if p.certificates != nil {
		p.certificates.Stop()
	}
	_ = p.listener.Close()
}

// bindAddress is what the node listens on, if that is an address of its own.
func (n *node) bindAddress() (netip.Addr, bool) {
	bind, err := netip.ParseAddr(n.options.BindAddress)
	return bind.Unmap(), err == nil && !bind.IsUnspecified()
}

// setReachableAddress adds the address on which the port is reached to a Node whose internal one is made up. It has the type of names: an
// API server or metrics-server that prefers InternalDNS finds it, and no Service takes it for an endpoint.
func (n *node) setReachableAddress(_ context.Context, node *corev1.Node) error {
	bind, has := n.bindAddress()
	if n.port == nil || !has || contract.NodeAddress(bind) == bind {
		return nil
	}
	node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: bind.String()})
	return nil
}
