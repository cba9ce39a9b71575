package kwok

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/drivertest"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// realProgram is kwok's controller. Tests that need it are left out where make build-kwok has not built it.
func realProgram(t *testing.T) string {
	t.Helper()
	program, err := testenv.Binary("kwok")
	if err != nil {
		t.Skip("without kwok's controller: make build-kwok builds it")
	}
	return program
}

// withController makes a driver that starts program.
func withController(t *testing.T, program string) *env {
	t.Helper()
	return newEnv(t, func(o *Options) { o.Program, o.Dir = program, filepath.Join(t.TempDir(), "kwok") })
}

// script writes a program that stands in for kwok's controller.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kwok")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func (b *env) expectReady(name string) {
	b.t.Helper()
	b.Eventually(func() (driver.Instance, error) { return b.Get(b.t.Context(), requestOf(name, `{`+head+`}`)) }).
		WithTimeout(agenttest.Wait).Should(HaveField("State", driver.Running))
}

func TestConformanceWithTheController(t *testing.T) {
	program := realProgram(t)
	drivertest.Run(t, func(t *testing.T) drivertest.Subject { return conformanceOf(withController(t, program).Driver) })
}

func TestTheControllerPlaysNodesAndPods(t *testing.T) {
	b := withController(t, realProgram(t))
	foreign := &corev1.Node{}
	foreign.Name = "real"
	b.Expect(b.client.Create(t.Context(), foreign)).To(Succeed())
	t.Cleanup(func() { _ = b.client.Delete(context.Background(), foreign) })
	b.create(requestOf("m1", `{`+head+`,"maxPods":5}`))
	b.expectReady("m1")
	node := b.node("m1")
	b.Expect(node.Status.Capacity.Pods().String()).To(Equal("5"), "the controller leaves what the agent writes")
	lease := &coordinationv1.Lease{}
	b.Expect(b.client.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: "m1"}, lease)).To(Succeed())
	b.Expect(lease.OwnerReferences).To(ConsistOf(HaveField("UID", node.UID)))
	b.Expect(lease.Spec.LeaseDurationSeconds).To(HaveValue(BeEquivalentTo(40)))

	namespace := agenttest.Namespace(t, b.client)
	pod := func(name, on string) *corev1.Pod {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		pod.Namespace, pod.Name = namespace, name
		b.Eventually(func() error { return b.client.Create(t.Context(), pod) }).WithTimeout(agenttest.Wait).Should(Succeed(), "its ServiceAccount comes later")
		return pod
	}
	own, other := pod("own", "m1"), pod("other", "real")
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"namespace": namespace, "name": "job"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeName": "m1", "restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "c"}},
		}}},
	}}
	b.Expect(b.client.Create(t.Context(), job)).To(Succeed())
	phase := func(of *corev1.Pod) func() (corev1.PodPhase, error) {
		return func() (corev1.PodPhase, error) {
			b.clock.SetTime(time.Now()) // The Node may be Ready before the controller's cache has its Lease: then the pod waits for a reminder.
			err := b.client.Get(t.Context(), client.ObjectKeyFromObject(of), of)
			return of.Status.Phase, err
		}
	}
	b.Eventually(phase(own)).WithTimeout(agenttest.Wait).Should(Equal(corev1.PodRunning))
	b.Expect(own.Status.PodIP).NotTo(BeEmpty())
	b.Expect(own.Status.ContainerStatuses).To(ConsistOf(HaveField("Ready", true)))
	b.Eventually(func() (int64, error) {
		b.clock.SetTime(time.Now())
		err := b.client.Get(t.Context(), client.ObjectKeyFromObject(job), job)
		succeeded, _, _ := unstructured.NestedInt64(job.Object, "status", "succeeded")
		return succeeded, err
	}).WithTimeout(agenttest.Wait).Should(BeEquivalentTo(1), "the pod of a Job is completed")
	b.Expect(phase(other)()).To(Equal(corev1.PodPending), "pods of other Nodes are none of its business")
	b.Expect(b.client.Delete(t.Context(), own)).To(Succeed())
	b.Eventually(func() bool {
		return apierrors.IsNotFound(b.client.Get(t.Context(), client.ObjectKeyFromObject(own), own))
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "a deleted pod stays")
	b.Expect(b.node("real").Status.Conditions).To(BeEmpty())
}

// Edge case: kwok's controller is started again when it dies, and its Nodes stay. Broken: it is started once.
func TestAControllerThatDiesIsStartedAgain(t *testing.T) {
	b := withController(t, script(t, `echo "$@" >> started; exec sleep 600`))
	b.create(requestOf("m1", `{`+head+`}`))
	b.Eventually(b.controller.processID).WithTimeout(agenttest.Wait).ShouldNot(BeZero())
	first := b.controller.processID()
	b.Expect(syscall.Kill(first, syscall.SIGKILL)).To(Succeed())
	b.Eventually(b.controller.processID).WithTimeout(agenttest.Wait).ShouldNot(Or(BeZero(), Equal(first)))
	b.Expect(b.Get(t.Context(), requestOf("m1", `{`+head+`}`))).To(HaveField("State", driver.Pending))
	started, err := os.ReadFile(filepath.Join(b.options.Dir, "started"))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(string(started)).To(And(ContainSubstring("--manage-nodes-with-label-selector=hollowfleet.io/hollow=kwok"), ContainSubstring("--node-lease-duration-seconds=40")))
}

func TestAControllerThatEndsAtOnceIsNotStartedInALoop(t *testing.T) {
	b := withController(t, script(t, `date +%s >> started; echo "no such flag" >&2; exit 3`))
	b.create(requestOf("m1", `{`+head+`}`))
	b.Eventually(func() (driver.Instance, error) { return b.Get(t.Context(), requestOf("m1", `{`+head+`}`)) }).WithTimeout(agenttest.Wait).
		Should(HaveField("Message", And(ContainSubstring("exit status 3"), ContainSubstring(b.options.Dir+"/kwok.log"), ContainSubstring("tries again within 4s"))))
	started, err := os.ReadFile(filepath.Join(b.options.Dir, "started"))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(strings.Count(string(started), "\n")).To(Equal(3))
	log, err := os.ReadFile(filepath.Join(b.options.Dir, "kwok.log.1"))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(string(log)).To(Equal("no such flag\n"))
}

func TestWithoutAMachineNothingIsStarted(t *testing.T) {
	b := withController(t, script(t, `exec sleep 600`))
	b.Expect(b.List(t.Context())).To(BeEmpty())
	b.Consistently(b.controller.processID).WithTimeout(time.Second).Should(BeZero())
	b.Expect(b.options.Dir).NotTo(BeADirectory())
}

// An agent that starts finds the Nodes that the one before has made.
func TestNodesOfAnEarlierAgentAreKept(t *testing.T) {
	b := newEnv(t, nil)
	b.create(requestOf("m1", `{`+head+`}`))
	next := withController(t, script(t, `exec sleep 600`))
	next.Eventually(next.controller.processID).WithTimeout(agenttest.Wait).ShouldNot(BeZero())
}

// Edge case: Without kwok's program no Node is made, and the Machine says how to build it. Broken: the Node is made first.
func TestWithoutTheProgramNoNodeIsMade(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "kwok")
	b := withController(t, program)
	request := requestOf("m1", `{`+head+`}`)
	expect := func(what string) {
		t.Helper()
		_, err := b.Create(t.Context(), request)
		var later *driver.RetryableError
		b.Expect(errors.As(err, &later)).To(BeTrue(), "%v", err)
		b.Expect(later.After).To(Equal(programRecheck))
		b.Expect(err).To(MatchError(ContainSubstring(what)))
		_, err = b.Get(t.Context(), request)
		b.Expect(err).To(MatchError(driver.ErrNotFound))
	}
	expect("kwok's controller is not at " + program + ": build it with make build-kwok")
	b.Expect(os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 600\n"), 0o600)).To(Succeed())
	expect("is not a program that can be run: correct the agent's option --kwok-program")
	b.Expect(os.Chmod(program, 0o700)).To(Succeed())
	b.create(request)
	b.Eventually(b.controller.processID).WithTimeout(agenttest.Wait).ShouldNot(BeZero(), "it needs no restart of the agent")
	b.Expect(os.Remove(program)).To(Succeed())
	b.Expect(b.Get(t.Context(), request)).To(HaveField("Name", "m1"), "what was made is there")
	b.Expect(b.Delete(t.Context(), request.Machine)).To(Succeed())
}

func TestTheFilesAreForTheirOwnerOnly(t *testing.T) {
	b := withController(t, script(t, `env > environment; exec sleep 600`))
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	b.create(requestOf("m1", `{`+head+`}`))
	var environment []byte
	b.Eventually(func() (_ string, err error) {
		environment, err = os.ReadFile(filepath.Join(b.options.Dir, "environment"))
		return string(environment), err
	}).WithTimeout(agenttest.Wait).Should(ContainSubstring("HOME=" + b.options.Dir))
	b.Expect(string(environment)).NotTo(ContainSubstring("SECRET_OF_THE_AGENT"))
	for name, mode := range map[string]os.FileMode{"": 0o700, tokenFile: 0o600, kubeconfigFile: 0o600, configurationFile: 0o600, logFile: 0o600} {
		info, err := os.Stat(filepath.Join(b.options.Dir, name))
		if name == logFile && errors.Is(err, os.ErrNotExist) {
			continue // Nothing was written yet.
		}
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(info.Mode().Perm()).To(Equal(mode), name)
	}
}

// Edge case: kwok's credential reaches no further than Nodes of kwok. Broken: without the policy; with rights to Secrets.
func TestTheCredentialReachesNoFurther(t *testing.T) {
	b := withController(t, script(t, `exec sleep 600`))
	b.create(requestOf("m1", `{`+head+`}`))
	b.Eventually(b.controller.processID).WithTimeout(agenttest.Wait).ShouldNot(BeZero())
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.options.Dir, kubeconfigFile))
	b.Expect(err).NotTo(HaveOccurred())
	kwok, err := client.New(rest.CopyConfig(config), client.Options{Scheme: b.client.Scheme()})
	b.Expect(err).NotTo(HaveOccurred())
	foreign := &corev1.Node{}
	foreign.Name = "real"
	b.Expect(b.client.Create(t.Context(), foreign)).To(Succeed())
	t.Cleanup(func() { _ = b.client.Delete(context.Background(), foreign) })
	namespace := agenttest.Namespace(t, b.client)
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "real", Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	pod.Namespace, pod.Name = namespace, "p"
	b.Eventually(func() error { return b.client.Create(t.Context(), pod) }).WithTimeout(agenttest.Wait).Should(Succeed())

	status := client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Odd","status":"True"}]}}`))
	b.Eventually(func() error { return kwok.Status().Patch(t.Context(), foreign, status) }).WithTimeout(agenttest.Wait).
		Should(MatchError(ContainSubstring("hollowfleet.io/hollow=kwok only")), "the policy takes a moment to hold")
	b.Expect(kwok.Status().Patch(t.Context(), b.node("m1"), status)).To(Succeed())
	b.Expect(kwok.Delete(t.Context(), pod)).To(MatchError(ContainSubstring("whose deletion has been ordered")))
	for what, do := range map[string]func() error{
		"list Secrets":  func() error { return kwok.List(t.Context(), &corev1.SecretList{}) },
		"create a Node": func() error { n := &corev1.Node{}; n.Name = "mine"; return kwok.Create(t.Context(), n) },
		"change a Node": func() error {
			return kwok.Patch(t.Context(), foreign, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))
		},
		"delete a Node": func() error { return kwok.Delete(t.Context(), foreign) },
		"create a pod": func() error {
			p := pod.DeepCopy()
			p.ResourceVersion, p.Name = "", "q"
			return kwok.Create(t.Context(), p)
		},
		"list Leases of the system": func() error {
			return kwok.List(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace("kube-system"))
		},
	} {
		b.Expect(apierrors.IsForbidden(do())).To(BeTrue(), "it can %s", what)
	}
}

func TestTheLogIsBounded(t *testing.T) {
	g := NewWithT(t)
	log := &boundedLog{path: filepath.Join(t.TempDir(), "log")}
	line := []byte(strings.Repeat("x", 1<<20))
	for range 20 {
		g.Expect(log.Write(line)).To(Equal(len(line)))
	}
	log.Close()
	for _, name := range []string{log.path, log.path + ".1"} {
		info, err := os.Stat(name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Size()).To(BeNumerically("<=", mostLog+len(line)), fmt.Sprint(name))
	}
}
