package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// programsVariable names the directory of prometheus and promtool, which "make test-prometheus" builds.
const programsVariable = "HOLLOWFLEET_PROMETHEUS"

const (
	patience = 4 * time.Minute
	glance   = 500 * time.Millisecond
	grace    = 30 * time.Second
)

// fleetFile is the fleet of the tests. Everything that it waits for is short.
const fleetFile = `apiVersion: local.hollowfleet.io/v1alpha1
kind: LocalFleet
clusters: 2
machines: 1
hubArgs: [--heartbeat-period=2s, --heartbeat-grace=4s]
agentArgs: [--freeze-after=6s, --certificate-lifetime=10m]
`

// world is a local fleet and the Prometheus that looks at it.
type world struct {
	*WithT
	t       *testing.T
	dir     string
	started time.Time
	hub     client.Client
	address string
}

// programOf returns the path of prometheus or promtool.
func programOf(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv(programsVariable)
	if dir == "" {
		t.Skip("make test-prometheus runs it")
	}
	return filepath.Join(dir, name)
}

// newWorld starts the fleet and Prometheus.
func newWorld(t *testing.T) *world {
	t.Helper()
	program := programOf(t, "prometheus")
	temp := t.TempDir()
	w := &world{WithT: NewWithT(t), t: t, dir: filepath.Join(temp, "fleet"), started: time.Now()}
	t.Cleanup(func() { w.hollow("local", "down", "--dir", w.dir) })
	file := filepath.Join(temp, "fleet.yaml")
	w.Expect(os.WriteFile(file, []byte(fleetFile), 0o600)).To(Succeed())
	output := w.hollow("local", "up", "-f", file, "--dir", w.dir)
	report := w.report()
	w.Expect(output).To(ContainSubstring(report.Monitoring.Prometheus))
	config, err := clientcmd.BuildConfigFromFlags("", report.Hub.Kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	w.hub, err = client.New(config, client.Options{Scheme: scheme.New()})
	w.Expect(err).NotTo(HaveOccurred())

	w.address, err = testenv.FreeAddress()
	w.Expect(err).NotTo(HaveOccurred())
	prometheus, err := process.Start(process.Spec{
		Name: "prometheus", Path: program, LogFile: filepath.Join(temp, "prometheus.log"),
		Args: []string{"--config.file=" + hasten(w.WithT, filepath.Dir(report.Monitoring.Prometheus), filepath.Join(temp, "hastened")), "--storage.tsdb.path=" + filepath.Join(temp, "data"), "--web.listen-address=" + w.address},
	})
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = prometheus.Stop(grace) })
	w.Eventually(func() (int, error) { result, err := w.query("up == 1"); return len(result), err }, patience, glance).Should(Equal(4), "a hub and three agents")
	return w
}

// hollow runs kubectl-hollow, and returns its output.
func (w *world) hollow(args ...string) string {
	w.t.Helper()
	path, err := testenv.Binary("kubectl-hollow")
	w.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	w.Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

func (w *world) report() localfleet.Report {
	w.t.Helper()
	report, err := localfleet.ReadReport(w.dir)
	w.Expect(err).NotTo(HaveOccurred())
	return report
}

// signal sends a signal to the processes of the fleet whose names start with prefix.
func (w *world) signal(prefix string, signal syscall.Signal) {
	w.t.Helper()
	sent := 0
	for _, running := range w.report().Processes {
		if strings.HasPrefix(running.Name, prefix) {
			w.Expect(syscall.Kill(running.PID, signal)).To(Succeed(), running.Name)
			sent++
		}
	}
	w.Expect(sent).NotTo(BeZero(), prefix)
}

// signalServer sends a signal to the hub's API server.
func (w *world) signalServer(signal syscall.Signal) {
	w.t.Helper()
	ready, err := process.ReadReady(w.report().Hub.Dir)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(syscall.Kill(ready.Components["kube-apiserver"].PID, signal)).To(Succeed())
}

// create creates the objects of a manifest on the hub.
func (w *world) create(manifest string) {
	w.t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.hub.Create(w.t.Context(), object)).To(Succeed(), "%s %s", object.GetKind(), object.GetName())
	}
}

// patch changes an object by a JSON merge patch.
func (w *world) patch(object client.Object, patch string) {
	w.t.Helper()
	w.Eventually(func() error {
		return w.hub.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))
	}, patience, glance).Should(Succeed())
}

// series is one of the result of a query.
type series struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

// ask calls an endpoint of Prometheus's API, and decodes the data into target.
func (w *world) ask(path string, parameters url.Values, target any) error {
	response, err := http.Get("http://" + w.address + "/api/v1/" + path + "?" + parameters.Encode()) //nolint:noctx // a test's own Prometheus on loopback
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          json.RawMessage
	}{}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("prometheus: %s", answer.Error)
	}
	return json.Unmarshal(answer.Data, target)
}

// query evaluates an expression now.
func (w *world) query(expression string) ([]series, error) {
	var data struct{ Result []series }
	err := w.ask("query", url.Values{"query": {expression}}, &data)
	return data.Result, err
}

// queryAll evaluates an expression for all the time since the start.
func (w *world) queryAll(expression string) ([]series, error) {
	var data struct{ Result []series }
	err := w.ask("query_range", url.Values{
		"query": {expression}, "step": {"2"}, "start": {fmt.Sprint(w.started.Unix())}, "end": {fmt.Sprint(time.Now().Unix())},
	}, &data)
	return data.Result, err
}

// awaitScrape waits until Prometheus has scraped the hub once more.
func (w *world) awaitScrape() {
	w.t.Helper()
	began := float64(time.Now().UnixMilli()) / 1000
	w.Eventually(func() (int, error) {
		found, err := w.query(fmt.Sprintf(`timestamp(up{job="hollowfleet-hub"}) > %f`, began))
		return len(found), err
	}, patience, glance).Should(Equal(1))
}

// firing returns the names of the alerts that fire now.
func (w *world) firing() (map[string]bool, error) {
	alerts, err := w.query(`ALERTS{alertstate="firing"}`)
	names := map[string]bool{}
	for _, alert := range alerts {
		names[alert.Metric["alertname"]] = true
	}
	return names, err
}
