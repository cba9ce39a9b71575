package podhost

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/logfile"
)

const readHeaderTimeout = 30 * time.Second

// newKubeletServer serves the part of the kubelet's API that the podhost has, the logs. Callers are authenticated and authorized by the API
// server, like those of a kubelet. The certificate is that of the podhost as a client: an API server checks it only if it is told to.
func newKubeletServer(config *rest.Config, client kubernetes.Interface, nodeName string, p *pods) (*http.Server, error) {
	certificate, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return nil, fmt.Errorf("reading the podhost's certificate: %w", err)
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
	return &http.Server{
		Handler:           nodeutil.WithAuth(auth, api.PodHandler(api.PodHandlerConfig{GetContainerLogs: p.containerLogs}, false)),
		ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{certificate},
			ClientAuth:   tls.RequestClientCert,
		},
	}, nil
}

// containerLogs returns the log of a node's current or previous run. A pod may have ended under an earlier podhost.
func (p *pods) containerLogs(ctx context.Context, namespace, name, container string, options api.ContainerLogOpts) (io.ReadCloser, error) {
	pod, _ := p.find(namespace, name)
	if pod == nil {
		return nil, errdefs.NotFoundf("pod %s/%s is not on this node", namespace, name)
	}
	status, found := podutil.GetContainerStatus(pod.Status.ContainerStatuses, container)
	if !found {
		return nil, errdefs.NotFoundf("pod %s/%s has no container %s", namespace, name, container)
	}
	attempt := status.RestartCount
	if options.Previous {
		attempt--
	}
	if attempt < 0 || status.ContainerID == "" {
		return nil, errdefs.NotFoundf("container %s has not run: %s", container, ptr.Deref(status.State.Waiting, corev1.ContainerStateWaiting{}).Message)
	}
	isRunning := func() bool {
		current, runs := p.find(namespace, name)
		if !runs || current.UID != pod.UID {
			return false
		}
		now, found := podutil.GetContainerStatus(current.Status.ContainerStatuses, container)
		return found && now.State.Running != nil && now.RestartCount == attempt
	}
	reader, writer := io.Pipe()
	go func() {
		path := p.runtime.Files.Log(pod.UID, attempt)
		writer.CloseWithError(logfile.Read(ctx, path, readOptions(options), isRunning, writer))
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
		converted.TailLines = ptr.To(int64(options.Tail))
	}
	if options.LimitBytes > 0 {
		converted.LimitBytes = ptr.To(int64(options.LimitBytes))
	}
	return converted
}
