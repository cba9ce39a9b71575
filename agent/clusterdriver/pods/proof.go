package pods

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/apis/versionreport"
)

const (
	// proofTimeout bounds a question to an API server, longestAnswer its answer.
	proofTimeout  = 3 * time.Second
	longestAnswer = 64 << 10
)

// proof asks one API server how it is, without a credential: everyone may ask for that.
type proof struct {
	ca     []byte
	server string
	client *http.Client
}

// proofOf returns the proof of a cluster, with the connections that it has.
func (d *Driver) proofOf(name, uid string, ca []byte) (*proof, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.proofs[uid]
	if known != nil && bytes.Equal(known.ca, ca) {
		return known, nil
	}
	if known != nil {
		known.closeConnections()
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("secret %s/%s has no certificate of the cluster's authority", rendering.NamespaceOf(name), rendering.SecretOf(rendering.Authority))
	}
	server := rendering.ServerName(name)
	made := &proof{
		ca: ca, server: "https://" + net.JoinHostPort(server, fmt.Sprint(rendering.APIServerPort)),
		client: &http.Client{
			Transport: &http.Transport{
				DialContext: d.Dial, TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: server, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
				TLSHandshakeTimeout: proofTimeout, IdleConnTimeout: time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       proofTimeout,
		},
	}
	d.proofs[uid] = made
	return made, nil
}

func (p *proof) closeConnections() { p.client.CloseIdleConnections() }

// askVersion returns the version of an API server that says that it is ready.
func (p *proof) askVersion(ctx context.Context) (string, error) {
	if _, err := p.readPath(ctx, "/readyz"); err != nil {
		return "", err
	}
	content, err := p.readPath(ctx, "/version")
	if err != nil {
		return "", err
	}
	var told version.Info
	if err := json.Unmarshal(content, &told); err != nil {
		return "", fmt.Errorf("reading the version of its API server: %w", err)
	}
	if told.GitVersion == "" {
		return "", errors.New("its API server does not tell its version")
	}
	// One that emulates another minor runs as that one.
	if told.EmulationMinor != "" && told.EmulationMinor != told.Minor {
		return "v" + told.EmulationMajor + "." + told.EmulationMinor, nil
	}
	return told.GitVersion, nil
}

// errNoReport says that a control plane does not say what its components run. One of an earlier release never does.
var errNoReport = errors.New("its control plane does not say yet what its components run")

// askReport returns what the control plane says of its components.
func (p *proof) askReport(ctx context.Context) (versionreport.Report, error) {
	content, err := p.readPath(ctx, "/api/v1/namespaces/"+versionreport.Namespace+"/configmaps/"+versionreport.Name)
	if answer := (*answerError)(nil); errors.As(err, &answer) && (answer.code == http.StatusNotFound || answer.code == http.StatusForbidden) {
		return versionreport.Report{}, errNoReport
	}
	if err != nil {
		return versionreport.Report{}, err
	}
	var told corev1.ConfigMap
	if err := json.Unmarshal(content, &told); err != nil {
		return versionreport.Report{}, fmt.Errorf("reading the versions of its components: %w", err)
	}
	return versionreport.Parse(told.Data), nil
}

// answerError is an answer that is not OK.
type answerError struct {
	code         int
	status, path string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("its API server answers %s to %s", e.status, e.path)
}

func (p *proof) readPath(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking its API server: %w", err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking its API server: %w", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of its API server: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, &answerError{code: response.StatusCode, status: response.Status, path: path}
	}
	return content, nil
}
