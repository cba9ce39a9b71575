package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// PodhostReadyPath is where a podhost answers 200 on its health socket once its
// Node is registered and pods can come.
const PodhostReadyPath = "/readyz"

// healthTimeout bounds one look at a component's health.
const healthTimeout = 2 * time.Second

// healthCheck returns nil when the component does its job.
type healthCheck func(ctx context.Context) error

// answerLimit bounds how much of an answer is read.
const answerLimit = 64 << 10

// checkHTTP wants the status OK and the text somewhere in the answer.
func checkHTTP(client *http.Client, url, text string) healthCheck {
	return func(ctx context.Context) error {
		status, answer, err := fetchHealth(ctx, client, url)
		switch {
		case err != nil:
			return err
		case status != http.StatusOK:
			return fmt.Errorf("asking for health: %s answers %d %s", url, status, http.StatusText(status))
		case !bytes.Contains(answer, []byte(text)):
			return fmt.Errorf("asking for health: %s answers without %q", url, text)
		}
		return nil
	}
}

// fetchHealth returns the answer, whatever its status.
func fetchHealth(ctx context.Context, client *http.Client, url string) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("asking for health: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("asking for health: %w", err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(io.LimitReader(response.Body, answerLimit)); err != nil {
		return 0, nil, fmt.Errorf("asking for health: %w", err)
	}
	return response.StatusCode, answer, nil
}

// secureClient trusts the cluster's authority only. It keeps no connections:
// a kept one would hide that a component no longer accepts new ones.
func secureClient(caFile string) (*http.Client, error) {
	content, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("reading the cluster's authority: no certificate in %s", caFile)
	}
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}, nil
}

// socketHealth asks a component that serves its health on a unix socket.
func socketHealth(socket, path, text string) healthCheck {
	return checkHTTP(socketClient(socket), "http://localhost"+path, text)
}

// socketClient connects to the socket, whatever it is asked for.
func socketClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

// podhostHealth wants the running podhost to say that it is ready, and its
// Node to be Ready. The Node alone is not enough: it may still be Ready from
// an earlier run.
func podhostHealth(client kubernetes.Interface, node string, answers healthCheck) healthCheck {
	return func(ctx context.Context) error {
		if err := answers(ctx); err != nil {
			return fmt.Errorf("the podhost does not say that its node is registered: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		found, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("getting the podhost's node: %w", err)
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is not Ready", node)
	}
}
