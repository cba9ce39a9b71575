package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	chromium "github.com/hollowfleet/hollowfleet/internal/dev/browser"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// bigFleet has so many clusters with so many Machines each, of which the test plays the agents.
const bigClusters, bigMachines = 200, 50

// populate fills an API server of its own with a fleet of that name.
func populate(t *testing.T, environment *testenv.Environment, name string) {
	t.Helper()
	g := NewWithT(t)
	config := rest.CopyConfig(environment.Config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme.New()})
	g.Expect(err).NotTo(HaveOccurred())
	labels := map[string]string{"app": "x"}
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.MachineFleetSpec{
		ClusterSelector: &metav1.LabelSelector{}, Replicas: new(int32(bigMachines)),
		Template: v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels)}},
	}}
	g.Expect(c.Create(t.Context(), fleet)).To(Succeed())
	numbers := make(chan int)
	var working sync.WaitGroup
	problems := make(chan error, bigClusters)
	for range 16 {
		working.Go(func() {
			for i := range numbers {
				problems <- populateCluster(t.Context(), c, fleet, fmt.Sprintf("big-%03d", i), labels)
			}
		})
	}
	for i := range bigClusters {
		numbers <- i
	}
	close(numbers)
	working.Wait()
	for range bigClusters {
		g.Expect(<-problems).NotTo(HaveOccurred())
	}
}

var readyNow = metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "it is as its spec says"}

// populateCluster makes a cluster with its Machines, all of them Ready.
func populateCluster(ctx context.Context, c client.Client, fleet *v1alpha1.MachineFleet, name string, labels map[string]string) error {
	put := func(object client.Object, conditions func() *[]metav1.Condition) error {
		if err := c.Create(ctx, object); err != nil || conditions == nil {
			return err
		}
		meta.SetStatusCondition(conditions(), readyNow)
		return c.Status().Update(ctx, object)
	}
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	deployment := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fleet.Name}, Spec: v1alpha1.MachineDeploymentSpec{
		ClusterName: name, Replicas: new(int32(bigMachines)), Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels)}}
	deployment.Annotations = map[string]string{v1alpha1.FleetRecordAnnotation: rollout.NewRecord(fleet, plan.Record{Revision: "r", Phase: plan.Succeeded, Since: time.Now()}, "").
		BindTo(deployment).AnnotationValue()}
	if err := put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil); err != nil {
		return err
	}
	if err := put(cluster, func() *[]metav1.Condition {
		cluster.Status.ObservedGeneration = cluster.Generation
		return &cluster.Status.Conditions
	}); err != nil {
		return err
	}
	if err := put(deployment, func() *[]metav1.Condition {
		deployment.Status.ObservedGeneration = deployment.Generation
		return &deployment.Status.Conditions
	}); err != nil {
		return err
	}
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fleet.Name + "-1",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))}},
		Spec: v1alpha1.MachineSetSpec{ClusterName: name, Replicas: new(int32(bigMachines)), Selector: deployment.Spec.Selector, Template: deployment.Spec.Template}}
	if err := put(set, func() *[]metav1.Condition {
		set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, bigMachines
		return &set.Status.Conditions
	}); err != nil {
		return err
	}
	for i := range bigMachines {
		machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fmt.Sprintf("%s-%03d", set.Name, i), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))}},
			Spec: v1alpha1.MachineSpec{ClusterName: name, MachineTemplateBody: deployment.Spec.Template.Spec}}
		if err := put(machine, func() *[]metav1.Condition {
			machine.Status.ObservedGeneration, machine.Status.Phase = machine.Generation, v1alpha1.MachineRunning
			machine.Status.NodeRef = &v1alpha1.NodeReference{Kind: "Node", Name: machine.Name, UID: "a"}
			machine.Status.Versions = &v1alpha1.ObservedVersions{Kubelet: "v1.37.1"}
			return &machine.Status.Conditions
		}); err != nil {
			return err
		}
	}
	return nil
}

// The times are logged, to be compared on a quiet machine; the test fails only on ten times what they were.
// Claim: With 200 clusters of 50 Machines each on a real API server, `status` and `fleet tree` read at most three pages of a kind, and the dashboard's program has less than 100 MB. Broken: pages of 100 objects; objects kept as they come.
func TestAFleetOf200ClustersOnARealAPIServer(t *testing.T) {
	testenv.Long(t)
	g := NewWithT(t)
	environment, err := testenv.Start(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = environment.Stop() })
	started := time.Now()
	populate(t, environment, "workers")
	t.Logf("%d clusters with %d Machines each were made in %s", bigClusters, bigMachines, time.Since(started).Round(time.Second))
	program, err := testenv.Binary("kubectl-hollow")
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig := environment.Cluster.AdminKubeconfig()
	for _, line := range []string{"status", "fleet tree workers", "fleet tree workers -o json"} {
		best := time.Hour
		for range 3 {
			started := time.Now()
			out, _ := exec.CommandContext(t.Context(), program, append(strings.Fields(line), "--kubeconfig", kubeconfig)...).Output()
			if took := time.Since(started); took < best {
				best = took
			}
			g.Expect(bytes.Count(out, []byte("\n"))).To(BeNumerically(">", 10), line)
		}
		t.Logf("%s: %s, %s", line, best.Round(time.Millisecond), loadAverage())
		g.Expect(best).To(BeNumerically("<", 20*time.Second), line)
		address, lists := countingProxyOf(t, environment)
		_ = exec.CommandContext(t.Context(), program, append(strings.Fields(line), "--kubeconfig", kubeconfig, "--server", address)...).Run()
		g.Expect(lists()).To(And(Not(BeEmpty()), HaveEach(BeNumerically("<=", 3))), line)
	}
	openBigDashboard(t, program, kubeconfig)
}

// openBigDashboard measures a dashboard that has all of a fleet.
func openBigDashboard(t *testing.T, program, kubeconfig string) {
	t.Helper()
	g := NewWithT(t)
	command := exec.CommandContext(t.Context(), program, "dashboard", "--kubeconfig", kubeconfig)
	out, err := command.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	started := time.Now()
	g.Expect(command.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGINT)
		_ = command.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	address = strings.TrimSpace(address)
	read := func() string {
		response, err := http.Get(address)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		var text bytes.Buffer
		_, err = text.ReadFrom(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		return text.String()
	}
	g.Eventually(read).WithTimeout(patience).WithPolling(50 * time.Millisecond).Should(ContainSubstring("10000: "))
	t.Logf("all Machines are known after %s, %s", time.Since(started).Round(time.Millisecond), loadAverage())
	page := chromium.Start(t).Open()
	page.Resize(1280, 900, "light")
	best, tiles := time.Hour, 0
	for range 3 {
		started := time.Now()
		page.Visit(address)
		page.Evaluate("document.querySelectorAll('li.tile').length", &tiles)
		best = min(best, time.Since(started))
		g.Expect(tiles).To(Equal(bigClusters))
	}
	resident := residentMemory(t, command.Process.Pid)
	t.Logf("the browser has the map after %s; the program has %d MB resident", best.Round(time.Millisecond), resident>>20)
	g.Expect(best).To(BeNumerically("<", 20*time.Second))
	g.Expect(resident).To(BeNumerically("<", 100<<20))
}

// residentMemory is what a process has in memory.
func residentMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kibibytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kibibytes << 10
}

// loadAverage says how busy the machine is.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return "load " + strings.Join(strings.Fields(string(text))[:1], "")
}
