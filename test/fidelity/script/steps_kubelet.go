package script

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func kubeletSteps() []*Step {
	nothingRuns := "nothing runs in a hollow node"
	return []*Step{
		{Name: "logs", Row: rowLogs, Verdict: Adjustable, Run: inScene("logs", runLogs)},
		{Name: "exec", Row: rowExec, Verdict: Absent, Run: inScene("exec", runExec), Declared: []Declared{{Figure: "exec", Because: nothingRuns}}},
		{
			Name: "network", Row: rowNetwork, Verdict: Absent, Run: inScene("network", runNetwork),
			Declared: []Declared{{Figure: "answers at its address", Because: nothingRuns}},
		},
		{
			Name: "summary", Row: rowTop, Verdict: Adjustable, Run: inScene("summary", runSummary),
			Declared: []Declared{{Figure: `stats/summary has "network"`, Because: "nothing sends"}},
		},
		{
			Name: "metrics", Row: rowMetrics, Verdict: Absent, Run: inScene("metrics", runMetrics),
			Declared: []Declared{{Figure: "pod in /metrics/cadvisor", Because: "no cgroups, which cAdvisor counts"}},
		},
		{Name: "certificate", Row: rowCertificate, Verdict: Same, Run: runCertificate},
	}
}

// runLogs reads the logs of a container in the ways that kubectl has.
func runLogs(ctx context.Context, s *scene, r *Record) error {
	if err := s.play(ctx, r, s.side.newPod("talks", behaviour{"log": "0s one line"}), "Ready", isReady); err != nil {
		return err
	}
	read := func(options *corev1.PodLogOptions) string {
		text, err := s.side.Client.CoreV1().Pods(s.namespace).GetLogs("talks", options).DoRaw(ctx)
		if err != nil {
			return s.normal(err.Error())
		}
		return string(text)
	}
	err := eventually(ctx, "the line", func(context.Context) (bool, error) {
		return strings.Contains(read(&corev1.PodLogOptions{}), "one line"), nil
	})
	if err != nil {
		return err
	}
	r.fact("tail", fmt.Sprint(len(strings.Fields(read(&corev1.PodLogOptions{TailLines: ptr.To[int64](1)}))) > 0))
	r.fact("tail of 0 lines", read(&corev1.PodLogOptions{TailLines: ptr.To[int64](0)}))
	stamp, _, _ := strings.Cut(read(&corev1.PodLogOptions{Timestamps: true, TailLines: ptr.To[int64](1)}), " ")
	_, err = time.Parse(time.RFC3339Nano, stamp)
	r.fact("timestamps", fmt.Sprint(err == nil))
	r.fact("4 bytes", fmt.Sprint(len(read(&corev1.PodLogOptions{LimitBytes: ptr.To[int64](4)}))))
	r.fact("of an earlier run", read(&corev1.PodLogOptions{Previous: true}))
	r.fact("of another container", read(&corev1.PodLogOptions{Container: "other"}))
	return nil
}

// runExec runs a command in a container.
func runExec(ctx context.Context, s *scene, r *Record) error {
	if err := s.play(ctx, r, s.side.newPod("runs", nil), "Ready", isReady); err != nil {
		return err
	}
	output, err := s.side.kubectl(ctx, "-n", s.namespace, "exec", "runs", "--", app, "exit", "3")
	r.fact("exec", s.normal(fmt.Sprint(output, err)))
	return nil
}

// runNetwork asks a pod something at its address, through the API server.
func runNetwork(ctx context.Context, s *scene, r *Record) error {
	if err := s.play(ctx, r, s.side.newPod("serves", nil), "Ready", isReady); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := s.side.Client.CoreV1().RESTClient().Get().Resource("pods").Namespace(s.namespace).Name("serves:8080").SubResource("proxy").
		Suffix("live").DoRaw(asking)
	r.fact("answers at its address", fmt.Sprint(err == nil))
	return nil
}

// families are the names of the metrics on a page.
func families(page string) (all []string) {
	for line := range strings.Lines(page) {
		name, found := strings.CutPrefix(line, "# TYPE ")
		if name, _, _ = strings.Cut(name, " "); found {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// runSummary reads what metrics-server reads.
func runSummary(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("measured", nil, func(pod *corev1.Pod) {
		main(pod).Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	})
	if err := s.play(ctx, r, pod, "Ready", isReady); err != nil {
		return err
	}
	var page string
	err := eventually(ctx, "the pod in /metrics/resource", func(ctx context.Context) (bool, error) {
		var err error
		page, err = s.side.get(ctx, "metrics/resource")
		return strings.Contains(page, s.namespace), err
	})
	if err != nil {
		return err
	}
	r.fact("metrics/resource", strings.Join(families(page), ", "))
	var labels []string
	for line := range strings.Lines(page) {
		if strings.Contains(line, s.namespace) {
			name, _, _ := strings.Cut(line, "}")
			labels = append(labels, name+"}")
		}
	}
	slices.Sort(labels)
	r.fact("series of the pod", strings.Join(labels, ", "))
	text, err := s.side.get(ctx, "stats/summary")
	if err != nil {
		return err
	}
	for _, part := range []string{`"cpu"`, `"memory"`, `"workingSetBytes"`, `"podRef"`, `"fs"`, `"network"`} {
		r.fact("stats/summary has "+part, fmt.Sprint(strings.Contains(text, part)))
	}
	return nil
}

// runMetrics reads the kubelet's own metrics, and cAdvisor's.
func runMetrics(ctx context.Context, s *scene, r *Record) error {
	if err := s.play(ctx, r, s.side.newPod("counted", nil), "Ready", isReady); err != nil {
		return err
	}
	page, err := s.side.get(ctx, "metrics")
	if err != nil {
		return err
	}
	for _, name := range []string{"kubelet_running_pods", "kubelet_pod_start_duration_seconds", "kubelet_runtime_operations_total", "kubelet_node_name"} {
		r.fact(name, fmt.Sprint(slices.Contains(families(page), name)))
	}
	// cAdvisor looks every 10 seconds or more.
	found := false
	for start := time.Now(); time.Since(start) < 30*time.Second && !found; {
		if page, err = s.side.get(ctx, "metrics/cadvisor"); err != nil {
			return err
		}
		if found = strings.Contains(page, s.namespace); found {
			break
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	r.fact("machine in /metrics/cadvisor", fmt.Sprint(slices.Contains(families(page), "machine_memory_bytes")))
	r.fact("pod in /metrics/cadvisor", fmt.Sprint(found))
	return nil
}

// runCertificate looks at what the kubelet serves with, and how it got that.
func runCertificate(ctx context.Context, side *Side, r *Record) error {
	requests, err := side.Client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, request := range requests.Items {
		if request.Spec.SignerName != certificatesv1.KubeletServingSignerName || request.Spec.Username != "system:node:"+side.Node {
			continue
		}
		r.fact("usages", fmt.Sprint(request.Spec.Usages))
		r.fact("groups", fmt.Sprint(request.Spec.Groups))
		r.fact("issued", fmt.Sprint(len(request.Status.Certificate) > 0))
	}
	address, err := side.address(ctx)
	if err != nil {
		return err
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // It is looked at, not trusted.
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	certificate := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
	r.fact("subject is the node", fmt.Sprint(certificate.Subject.CommonName == "system:node:"+side.Node, certificate.Subject.Organization))
	r.fact("names and addresses", fmt.Sprint(slices.Contains(certificate.DNSNames, side.Node), len(certificate.IPAddresses) > 0))
	return nil
}
