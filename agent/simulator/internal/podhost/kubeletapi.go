package podhost

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/logfile"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
)

const (
	certificateLifetime = 10 * 365 * 24 * time.Hour
	readHeaderTimeout   = 30 * time.Second
)

// newKubeletServer serves the part of the kubelet's API that the podhost has:
// the list of pods and the logs. Callers are authenticated and authorized by
// the API server, like those of a kubelet. The serving certificate is signed
// by itself: an API server checks it only if it is told to.
func newKubeletServer(config *rest.Config, client kubernetes.Interface, nodeName string, address netip.Addr, p *provider) (*http.Server, error) {
	certificate, err := selfSigned(nodeName, address)
	if err != nil {
		return nil, err
	}
	authority, err := dynamiccertificates.NewStaticCAContent("kubeconfig", config.CAData)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	auth, err := nodeutil.WebhookAuth(client, nodeName, func(c *nodeutil.WebhookAuthConfig) error {
		c.AuthnConfig.ClientCertificateCAContentProvider = authority
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("delegating authentication to the API server: %w", err)
	}
	handler := api.PodHandler(api.PodHandlerConfig{
		GetContainerLogs: p.containerLogs,
		GetPods:          p.GetPods,
		GetPodsFromKubernetes: func(context.Context) ([]*corev1.Pod, error) {
			return p.lister.List(labels.Everything())
		},
	}, true)
	return &http.Server{
		Handler:           nodeutil.WithAuth(auth, handler),
		ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{certificate},
			ClientAuth:   tls.RequestClientCert,
		},
	}, nil
}

func selfSigned(nodeName string, address netip.Addr) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the serving key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
		DNSNames:     []string{nodeName},
		IPAddresses:  []net.IP{address.AsSlice()},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(certificateLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the serving certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, nil
}

// containerLogs returns the log of a container's current or previous run.
func (p *provider) containerLogs(ctx context.Context, namespace, name, container string, options api.ContainerLogOpts) (io.ReadCloser, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		// A pod that is complete may have ended under an earlier podhost.
		if pod, err = p.lister.Pods(namespace).Get(name); err != nil {
			return nil, errdefs.NotFoundf("pod %s/%s is not on this node", namespace, name)
		}
	}
	status := findStatus(pod, container)
	if status == nil {
		return nil, errdefs.NotFoundf("pod %s/%s has no container %s", namespace, name, container)
	}
	attempt := status.RestartCount
	if options.Previous {
		attempt--
	}
	if attempt < 0 || status.ContainerID == "" {
		return nil, errdefs.NotFoundf("container %s has not run: %s", container, waitingReason(status))
	}
	running := func() bool {
		current, err := p.GetPod(ctx, namespace, name)
		if err != nil || current.UID != pod.UID {
			return false
		}
		now := findStatus(current, container)
		return now != nil && now.State.Running != nil && now.RestartCount == attempt
	}
	reader, writer := io.Pipe()
	go func() {
		path := podlife.LogPath(p.runtime.LogDir, pod, container, attempt)
		writer.CloseWithError(logfile.Read(ctx, path, readOptions(options), running, writer))
	}()
	return reader, nil
}

func readOptions(options api.ContainerLogOpts) *logfile.Options {
	converted := &logfile.Options{Follow: options.Follow, Timestamp: options.Timestamps, Since: options.SinceTime}
	if options.SinceSeconds > 0 {
		converted.Since = time.Now().Add(-time.Duration(options.SinceSeconds) * time.Second)
	}
	// The API's own code cannot tell an absent number from zero.
	if options.Tail > 0 {
		lines := int64(options.Tail)
		converted.TailLines = &lines
	}
	if options.LimitBytes > 0 {
		limit := int64(options.LimitBytes)
		converted.LimitBytes = &limit
	}
	return converted
}

func findStatus(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}

func waitingReason(status *corev1.ContainerStatus) string {
	if status.State.Waiting == nil {
		return "it was not restarted"
	}
	return status.State.Waiting.Reason + " " + status.State.Waiting.Message
}
