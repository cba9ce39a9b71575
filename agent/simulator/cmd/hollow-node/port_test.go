package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
)

// withPort lets a node serve the kubelet's API.
func withPort(name string) contract.Configuration {
	configuration, fidelity := configurationOf(name), contract.Fast()
	fidelity.Kubelet.EnableServer = true
	configuration.Fidelity = &fidelity
	return configuration
}

// servingRequests returns the node's requests for its serving certificate.
func (p *process) servingRequests(ctx context.Context) ([]certificatesv1.CertificateSigningRequest, error) {
	own, err := p.requests(ctx)
	var serving []certificatesv1.CertificateSigningRequest
	for _, csr := range own {
		if csr.Spec.SignerName == certificatesv1.KubeletServingSignerName {
			serving = append(serving, csr)
		}
	}
	return serving, err
}

// approveServing waits for the request for the serving certificate, checks and approves it.
func (p *process) approveServing(t *testing.T) {
	t.Helper()
	eventually(t, "the serving certificate is approved", time.Minute, func(ctx context.Context) error {
		serving, err := p.servingRequests(ctx)
		if err != nil || len(serving) != 1 {
			return fmt.Errorf("%d requests: %w", len(serving), err)
		}
		block, _ := pem.Decode(serving[0].Spec.Request)
		request, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return err
		}
		if names := fmt.Sprint(request.DNSNames, request.IPAddresses); names != fmt.Sprintf("[%s] [%s %s]", p.name, nodeAddress, bindAddress) {
			t.Errorf("the serving certificate is asked for %s", names)
		}
		serving[0].Status.Conditions = append(serving[0].Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
		})
		_, err = p.client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, serving[0].Name, &serving[0], metav1.UpdateOptions{})
		return err
	})
}

// kubeletPort is the port that the Node reports; 0 if it has none.
func (p *process) kubeletPort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(int(p.readyNode(t).Status.DaemonEndpoints.KubeletEndpoint.Port))
}

// ask sends a request of the administrator to the node's address: an API server passes no request on to a loopback one, but those of
// kubectl logs and exec.
func (p *process) ask(ctx context.Context, method, path string) (string, error) {
	node, err := p.node(ctx)
	if err != nil {
		return "", err
	}
	client, err := rest.HTTPClientFor(p.admin)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("https://%s%s", net.JoinHostPort(bindAddress, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))), path)
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return string(text), err
}

func (p *process) awaitPort(t *testing.T) {
	t.Helper()
	eventually(t, "the kubelet's API answers", time.Minute, func(ctx context.Context) error {
		_, err := p.ask(ctx, http.MethodGet, "/healthz")
		return err
	})
}

func (p *process) log(ctx context.Context, pod string, options corev1.PodLogOptions) (string, error) {
	text, err := p.client.CoreV1().Pods("default").GetLogs(pod, &options).DoRaw(ctx)
	return string(text), err
}

// Claim: kubectl logs and what reads /metrics/resource work on a hollow Node; exec, attach and port-forward say that nothing runs there. Broken: the log is a file that is missing; the Node uses nothing; the port is not reported.
func TestANodeAnswersKubectl(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withPort("answers"), goodToken)
	p.join(t)
	p.approveServing(t)
	p.awaitPort(t)
	said := p.create(t, p.pod("said", func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{
			"hollowfleet.io/log":       "0s starting\n0s listening",
			"hollowfleet.io/cpu-usage": "500m", "hollowfleet.io/memory-usage": "25%",
		}
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("400Mi")}
	}), isReady)
	p.expectLogs(t, said.Name)
	p.expectUse(t, said.Name)
	p.expectNothingRuns(t, said.Name)
	p.deleteAndWait(t, said.Name)
}

func (p *process) expectLogs(t *testing.T, said string) {
	t.Helper()
	ctx := t.Context()
	for options, want := range map[*corev1.PodLogOptions]string{
		{}:                                 "starting\nlistening\n",
		{TailLines: ptr.To[int64](1)}:      "listening\n",
		{SinceSeconds: ptr.To[int64](100)}: "starting\nlistening\n",
	} {
		if got, err := p.log(ctx, said, *options); err != nil || got != want {
			t.Errorf("log %v: %q, %v", options, got, err)
		}
	}
	if _, err := p.log(ctx, said, corev1.PodLogOptions{Previous: true}); !apierrors.IsBadRequest(err) {
		t.Errorf("the previous log of a container that was never restarted: %v", err)
	}
	p.create(t, p.pod("restarts", func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"hollowfleet.io/exit-after": "1s", "hollowfleet.io/exit-code": "4"}
	}), func(pod *corev1.Pod) error {
		if statuses := pod.Status.ContainerStatuses; len(statuses) != 1 || statuses[0].RestartCount == 0 {
			return errors.New("not restarted yet")
		}
		return nil
	})
	eventually(t, "the log before the restart is there", time.Minute, func(ctx context.Context) error {
		got, err := p.log(ctx, p.name+"-restarts", corev1.PodLogOptions{Previous: true})
		if err == nil && !strings.HasSuffix(got, "ended with exit code 4\n") {
			err = fmt.Errorf("got %q", got)
		}
		return err
	})
	p.create(t, p.pod("ends", func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Annotations = map[string]string{"hollowfleet.io/exit-after": "3s", "hollowfleet.io/log": "0s a"}
	}), isReady)
	if got, err := p.log(ctx, p.name+"-ends", corev1.PodLogOptions{Follow: true}); err != nil || got != "a\nended with exit code 0\n" {
		t.Errorf("a followed log: %q, %v", got, err)
	}
}

// sample returns the value of a metric, which has the labels in the order of the text format, and its time in seconds.
func sample(text, metric string) (value, at float64, err error) {
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(metric) + ` (\S+) (\d+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0, 0, fmt.Errorf("no sample of %s with a time in:\n%s", metric, text)
	}
	value, valueErr := strconv.ParseFloat(found[1], 64)
	milliseconds, timeErr := strconv.ParseFloat(found[2], 64)
	return value, milliseconds / 1000, errors.Join(valueErr, timeErr)
}

// expectUse reads what a node uses as metrics-server does: twice, and the rate between.
func (p *process) expectUse(t *testing.T, pod string) {
	t.Helper()
	labels := `{container="main",namespace="default",pod="` + pod + `"}`
	read := func() map[string][2]float64 {
		text, err := p.ask(t.Context(), http.MethodGet, "/metrics/resource")
		if err != nil {
			t.Fatal(err)
		}
		read := map[string][2]float64{}
		for _, metric := range []string{"node_cpu_usage_seconds_total", "node_memory_working_set_bytes", "container_cpu_usage_seconds_total" + labels, "container_memory_working_set_bytes" + labels} {
			value, at, err := sample(text, metric)
			if err != nil {
				t.Fatal(err)
			}
			read[metric] = [2]float64{value, at}
		}
		if !strings.Contains(text, "container_start_time_seconds"+labels) || !strings.Contains(text, "\nresource_scrape_error 0\n") {
			t.Errorf("no start time, or an error, in:\n%s", text)
		}
		return read
	}
	before := read()
	<-time.After(2 * time.Second)
	after := read()
	rate := func(metric string) float64 {
		return (after[metric][0] - before[metric][0]) / (after[metric][1] - before[metric][1])
	}
	if got := rate("container_cpu_usage_seconds_total" + labels); math.Abs(got-0.5) > 0.005 {
		t.Errorf("the container uses %v cores, want 0.5", got)
	}
	if got := after["container_memory_working_set_bytes"+labels][0]; got != 100<<20 {
		t.Errorf("the container uses %v bytes, want a quarter of 400Mi", got)
	}
	// The base is 2% of 3.5 cores and 5% of 16 GiB; the pod that is restarted again and again may run, too, with half of 20m and 64Mi.
	if got := rate("node_cpu_usage_seconds_total"); got < 0.56 || got > 0.61 {
		t.Errorf("the node uses %v cores, want 0.57 to 0.60", got)
	}
	base := 0.05*float64(16<<30) + 100<<20
	if got := after["node_memory_working_set_bytes"][0]; got < base-1 || got > base+64<<20 {
		t.Errorf("the node uses %v bytes, want %v or a bit more", got, base)
	}
	p.expectSummary(t, pod)
}

func (p *process) expectSummary(t *testing.T, pod string) {
	t.Helper()
	text, err := p.ask(t.Context(), http.MethodGet, "/stats/summary")
	if err != nil {
		t.Fatal(err)
	}
	var summary statsapi.Summary
	if err := json.Unmarshal([]byte(text), &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Node.NodeName != p.name || ptr.Deref(summary.Node.CPU.UsageNanoCores, 0) < 560_000_000 || ptr.Deref(summary.Node.Memory.AvailableBytes, 0) == 0 {
		t.Errorf("the summary of the node: %s", text)
	}
	for _, one := range summary.Pods {
		if one.PodRef.Name == pod && ptr.Deref(one.CPU.UsageNanoCores, 0) == 500_000_000 && ptr.Deref(one.Memory.WorkingSetBytes, 0) == 100<<20 {
			return
		}
	}
	t.Errorf("the summary has no pod %s that uses 500m and 100Mi: %s", pod, text)
}

// expectNothingRuns asks for what needs a process in a container, as kubectl does.
func (p *process) expectNothingRuns(t *testing.T, pod string) {
	t.Helper()
	const want = "nothing runs in a hollow node"
	pods := p.client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod)
	exec := rest.CopyConfig(p.admin)
	for subresource, options := range map[string]func(*rest.Request) *rest.Request{
		"exec": func(r *rest.Request) *rest.Request {
			return r.VersionedParams(&corev1.PodExecOptions{Command: []string{"sh"}, Stdout: true}, scheme.ParameterCodec)
		},
		"attach": func(r *rest.Request) *rest.Request {
			return r.VersionedParams(&corev1.PodAttachOptions{Stdout: true}, scheme.ParameterCodec)
		},
	} {
		url := options(p.client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod).SubResource(subresource)).URL()
		executor, err := remotecommand.NewSPDYExecutor(exec, http.MethodPost, url)
		if err != nil {
			t.Fatal(err)
		}
		if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", subresource, err)
		}
	}
	transport, upgrader, err := spdy.RoundTripperFor(exec)
	if err != nil {
		t.Fatal(err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, pods.SubResource("portforward").URL())
	var errorOutput bytes.Buffer
	forwarder, err := portforward.New(dialer, []string{freePort(t) + ":80"}, t.Context().Done(), make(chan struct{}), io.Discard, &errorOutput)
	if err != nil {
		t.Fatal(err)
	}
	if err := forwarder.ForwardPorts(); err == nil || !strings.Contains(err.Error()+errorOutput.String(), want) {
		t.Errorf("port-forward: %v, %s", err, errorOutput.String())
	}
	if _, err := p.ask(t.Context(), http.MethodPost, "/run/default/"+pod+"/main?cmd=ls"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("run: %v", err)
	}
}

// direct asks the node itself, and returns the status code. The serving certificate must be good for the node's address.
func (p *process) direct(t *testing.T, port, path string, config *rest.Config) (int, error) {
	t.Helper()
	asked := rest.AnonymousClientConfig(p.admin)
	asked.CAFile, asked.CAData = p.caFile, nil
	if config != nil {
		asked.BearerToken, asked.CertData, asked.KeyData = config.BearerToken, config.CertData, config.KeyData
	}
	client, err := rest.HTTPClientFor(asked)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	response, err := client.Get("https://" + net.JoinHostPort(bindAddress, port) + path)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, nil
}

// Claim: The kubelet's API answers only whom the cluster lets, also after a restart. Broken: anonymous requests; authorization mode AlwaysAllow; host logs; the certificate is asked for again.
func TestThePortOfANodeIsGuarded(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withPort("guarded"), goodToken)
	p.join(t)
	port := p.kubeletPort(t)
	if _, err := p.direct(t, port, "/pods", p.admin); err == nil || !strings.Contains(err.Error(), "tls") {
		t.Errorf("without a certificate: %v", err)
	}
	p.approveServing(t)
	p.awaitPort(t)
	token, err := p.client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	withToken := func(token string) *rest.Config { return &rest.Config{BearerToken: token} }
	for _, path := range []string{"/pods", "/metrics", "/metrics/resource", "/stats/summary", "/containerLogs/default/x/main", "/healthz", "/run/default/x/main"} {
		for want, who := range map[int]*rest.Config{http.StatusUnauthorized: nil, http.StatusForbidden: withToken(token.Status.Token)} {
			if code, err := p.direct(t, port, path, who); err != nil || code != want {
				t.Errorf("%s: want %d, got %d, %v", path, want, code, err)
			}
		}
	}
	if code, err := p.direct(t, port, "/pods", withToken("x"+token.Status.Token)); err != nil || code != http.StatusUnauthorized {
		t.Errorf("a bad token: %d, %v", code, err)
	}
	// What would show the machine or the process is refused to every caller.
	for path, want := range map[string]int{"/pods": 200, "/metrics": 200, "/metrics/cadvisor": 200, "/logs/": 404, "/debug/pprof/": 404, "/debug/flags/v": 404} {
		if code, err := p.direct(t, port, path, p.admin); err != nil || code != want && (want == 200 || code < 400) {
			t.Errorf("%s: want %d, got %d, %v", path, want, code, err)
		}
	}

	if code, _ := p.terminate(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := p.direct(t, port, "/pods", p.admin); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port of a process that has ended: %v", err)
	}
	p.start(t)
	eventually(t, "the Node has another port, which answers", time.Minute, func(context.Context) error {
		again := p.kubeletPort(t)
		if again == port {
			return errors.New("the same port")
		}
		code, err := p.direct(t, again, "/pods", p.admin)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("it answers %d", code)
		}
		return err
	})
	if serving, err := p.servingRequests(t.Context()); err != nil || len(serving) != 1 {
		t.Errorf("%d requests for a serving certificate, %v", len(serving), err)
	}
	p.expectNoPort(t)
}

// expectNoPort turns the port off and starts the node again.
func (p *process) expectNoPort(t *testing.T) {
	t.Helper()
	if code, _ := p.terminate(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	data, err := contract.Marshal(configurationOf(p.name))
	if err == nil {
		err = os.WriteFile(p.configDir()+"/"+contract.ConfigFileName, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.start(t)
	eventually(t, "the Node has no port", time.Minute, func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err != nil {
			return err
		}
		if endpoint, addresses := node.Status.DaemonEndpoints.KubeletEndpoint.Port, fmt.Sprint(node.Status.Addresses); endpoint != 0 || strings.Contains(addresses, bindAddress) {
			return fmt.Errorf("port %d, addresses %s", endpoint, addresses)
		}
		return nil
	})
}

// Claim: Nodes of a pack have ports of their own. Broken: the metrics of the process are shown as a node's; the second node panics; a killed node answers.
func TestNodesOfAPackHavePorts(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	in := startPack(t)
	var nodes []*process
	var packed []*pack.Node
	for _, name := range []string{"port-a", "port-b"} {
		p := newProcess(t, c, withPort(name), goodToken)
		nodes, packed = append(nodes, p), append(packed, p.startIn(t, in))
		p.approve(t)
		p.readyNode(t)
		p.approveServing(t)
		p.awaitPort(t)
	}
	for _, p := range nodes {
		if text, err := p.ask(t.Context(), http.MethodGet, "/stats/summary"); err != nil || !strings.Contains(text, `"nodeName": "`+p.name+`"`) {
			t.Errorf("the summary of %s: %v, %s", p.name, err, text)
		}
		if _, err := p.ask(t.Context(), http.MethodGet, "/metrics"); err == nil || !strings.Contains(err.Error(), "shares its process") {
			t.Errorf("the metrics of the process of %s: %v", p.name, err)
		}
		connection, err := tls.Dial("tcp", net.JoinHostPort(bindAddress, p.kubeletPort(t)), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if name := connection.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "system:node:"+p.name {
			t.Errorf("the port of %s has the certificate of %s", p.name, name)
		}
		_ = connection.Close()
	}
	port := nodes[0].kubeletPort(t)
	packed[0].Signal(syscall.SIGKILL)
	expectExit(t, packed[0], pack.ExitKilled, nil)
	if _, err := nodes[0].direct(t, port, "/pods", nodes[0].admin); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port of a node that was killed: %v", err)
	}
	if _, err := nodes[1].ask(t.Context(), http.MethodGet, "/stats/summary"); err != nil {
		t.Errorf("the other node of the pack: %v", err)
	}
	nodes[0].startIn(t, in)
	nodes[0].awaitPort(t)
}
