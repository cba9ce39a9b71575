package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/machine"
)

const (
	// longestEvidence bounds the collection of logs and metrics, longestMachineLog how long an agent may take for one of them.
	longestEvidence, longestMachineLog = 10 * time.Second, 8 * time.Second
	// mostLog and mostMetrics bound a file of a bundle, in bytes; logTail is the lines of a log of the hub or a Machine.
	mostLog, mostMetrics = 256 << 10, 8 << 20
	logTail              = 1000
	// mostMachineLogs is how many unhealthy Machines' logs are asked for.
	mostMachineLogs = 5
	// collectedAtOnce is how much is collected at a time.
	collectedAtOnce = 16
)

// evidence is a file of a bundle that is no object: a log, or metrics. Where it could not be had, problem says why.
type evidence struct {
	file    string
	text    []byte
	problem string
}

// collectEvidence collects logs and metrics, of a silent hub those on this machine. What cannot be had keeps nothing else out.
func collectEvidence(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, silent bool) []evidence {
	ctx, cancel := context.WithTimeout(ctx, longestEvidence)
	defer cancel()
	var jobs []func() []evidence
	if fleet := hub.LocalFleet(); fleet != nil {
		jobs = localJobs(ctx, fleet)
	} else {
		jobs = append(jobs, func() []evidence { return collectOfHubPods(ctx, hub) })
	}
	if !silent {
		jobs = append(jobs, func() []evidence { return collectMachineLogs(ctx, c) })
	}
	found := make([][]evidence, len(jobs))
	var collecting errgroup.Group
	collecting.SetLimit(collectedAtOnce)
	for i, job := range jobs {
		collecting.Go(func() error {
			found[i] = job()
			return nil
		})
	}
	_ = collecting.Wait() // Each says what went wrong in its file.
	var all []evidence
	for _, some := range found {
		all = append(all, some...)
	}
	return all
}

// newEvidence is a file of that text, or the reason why there is none.
func newEvidence(file string, text []byte, err error) evidence {
	e := evidence{file: file, text: text}
	if err != nil {
		e.problem = err.Error()
	}
	return e
}

// localJobs collect from the processes of a fleet on this machine.
func localJobs(ctx context.Context, fleet *cmdutil.LocalFleet) []func() []evidence {
	var jobs []func() []evidence
	for _, process := range fleet.Processes {
		name := strings.ReplaceAll(process.Name, " ", "-")
		if process.Log != "" {
			jobs = append(jobs, func() []evidence {
				text, err := readFileEnd(process.Log, mostLog)
				return []evidence{newEvidence("logs/"+name+".log", text, err)}
			})
		}
		if process.Metrics != "" {
			jobs = append(jobs, func() []evidence {
				text, err := scrapeMetrics(ctx, process.Metrics)
				return []evidence{newEvidence("metrics/"+name+".txt", text, err)}
			})
		}
	}
	return jobs
}

// readFileEnd reads the last bytes of a file, from the beginning of a line on.
func readFileEnd(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	from := max(info.Size()-most, 0)
	text, err := io.ReadAll(io.NewSectionReader(file, from, most))
	if err != nil {
		return nil, err
	}
	if _, rest, found := bytes.Cut(text, []byte("\n")); from > 0 && found {
		text = rest // The first line has no beginning.
	}
	return text, nil
}

// scrapeMetrics reads metrics as Prometheus does.
func scrapeMetrics(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, mostMetrics))
}

// collectOfHubPods collects from the pods of the hub, as its chart makes them.
func collectOfHubPods(ctx context.Context, hub *cmdutil.Hub) []evidence {
	const file = "logs/hub.log"
	config, err := hub.Config()
	if err != nil {
		return []evidence{newEvidence(file, nil, err)}
	}
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return []evidence{newEvidence(file, nil, err)}
	}
	found, err := pods.CoreV1().Pods(v1alpha1.HubNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=hollowfleet-hub"})
	if err != nil {
		return []evidence{newEvidence(file, nil, err)}
	}
	if len(found.Items) == 0 {
		return []evidence{newEvidence(file, nil, errors.New("no pod of namespace "+v1alpha1.HubNamespace+" has label app.kubernetes.io/name=hollowfleet-hub: add log and metrics of the hub yourself"))}
	}
	var all []evidence
	for i := range found.Items {
		all = append(all, collectOfHubPod(ctx, pods, &found.Items[i])...)
	}
	return all
}

// collectOfHubPod reads a pod's log, that of its run before if it was restarted, and its metrics by the API server.
func collectOfHubPod(ctx context.Context, pods kubernetes.Interface, pod *corev1.Pod) []evidence {
	read := func(previous bool) ([]byte, error) {
		return pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Container: "hub", TailLines: ptr.To[int64](logTail), LimitBytes: ptr.To[int64](4 * mostLog), Previous: previous,
		}).DoRaw(ctx)
	}
	text, err := read(false)
	all := []evidence{newEvidence("logs/"+pod.Name+".log", text, err)}
	for _, status := range pod.Status.ContainerStatuses {
		if status.RestartCount > 0 {
			text, err := read(true)
			all = append(all, newEvidence("logs/"+pod.Name+".previous.log", text, err))
			break
		}
	}
	text, err = pods.CoreV1().Pods(pod.Namespace).ProxyGet("https", pod.Name, "8080", "metrics", nil).DoRaw(ctx)
	if err != nil { // It serves them without a certificate, or not at all.
		text, err = pods.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, "8080", "metrics", nil).DoRaw(ctx)
	}
	return append(all, newEvidence("metrics/"+pod.Name+".txt", text, err))
}

// collectMachineLogs has agents read the logs of some unhealthy Machines.
func collectMachineLogs(ctx context.Context, c client.WithWatch) []evidence {
	chosen, err := chooseUnhealthy(ctx, c)
	if err != nil {
		return []evidence{newEvidence("logs/machines", nil, err)}
	}
	found := make([]evidence, len(chosen))
	var asking errgroup.Group
	for i := range chosen {
		asking.Go(func() error {
			one := &chosen[i]
			file := fmt.Sprintf("logs/machine-%s-%s.log", one.Namespace, one.Name)
			answer, err := machine.AskForLog(ctx, c, one, machine.Query{Lines: logTail, Timeout: longestMachineLog})
			if err != nil {
				found[i] = newEvidence(file, nil, err)
				return nil
			}
			found[i] = newEvidence(file, []byte(answer.Log), nil)
			return nil
		})
	}
	_ = asking.Wait() // Each says what went wrong in its file.
	return found
}

// chooseUnhealthy are Machines with a problem, or in progress where there are too few, at most one of each cluster before a second.
func chooseUnhealthy(ctx context.Context, c client.Client) ([]v1alpha1.Machine, error) {
	machines := &v1alpha1.MachineList{}
	if err := cmdutil.ListPaged(ctx, c, machines); err != nil {
		return nil, err
	}
	report, judge := &health.Report{}, &health.Judge{Now: time.Now()}
	if err := judge.Add(report, health.Machine, machines); err != nil {
		return nil, err
	}
	report.Sort()
	byName := map[string]*v1alpha1.Machine{}
	for i := range machines.Items {
		byName[machines.Items[i].Namespace+"/"+machines.Items[i].Name] = &machines.Items[i]
	}
	var chosen []v1alpha1.Machine
	taken := map[string]int{}
	for round := 1; round <= mostMachineLogs && len(chosen) < mostMachineLogs; round++ {
		for i := range report.Findings {
			finding := &report.Findings[i]
			key := finding.Namespace + "/" + finding.Name
			if one := byName[key]; one != nil && taken[finding.Namespace] < round && len(chosen) < mostMachineLogs {
				chosen = append(chosen, *one)
				taken[finding.Namespace]++
				delete(byName, key)
			}
		}
	}
	return chosen, nil
}
