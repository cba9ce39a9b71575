package controlplane_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

func selfReview() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }

func contains(list []string, item string) bool { return slices.Contains(list, item) }

// With a path that is too long for a socket, so that the sockets are elsewhere.
// Claim: Nothing outlives a killed supervisor. Broken: children without parent-death signal.
func TestNothingOutlivesAKilledSupervisor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-", 25))
	image := t.TempDir()
	c := startCluster(t, dir, strings.Join(controlplane.AllComponents, ","), "--image", "sleeper="+image, "--podhost-capacity", "pods=7", "--nodes-per-pack", "1")
	runsPod(t, c, image)
	components := c.pids(t)
	all := append(descendants(t, c.command.Process.Pid), components...)
	for _, pid := range components {
		if pid != c.command.Process.Pid && !slices.Contains(all[:len(all)-len(components)], pid) {
			t.Errorf("process %d of ready.json is not below the supervisor", pid)
		}
	}
	if below := len(all) - len(components); below < len(components)-1+1 {
		t.Errorf("below the supervisor are only %v: want the components and the pod", all[:below])
	}
	// A suspended process must go as well.
	succeed(t, "component", "pause", controlplane.Scheduler, "--data-dir", dir)
	if err := c.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "all processes are gone", gone(all))

	// What was left behind must not hinder the next start.
	again := startCluster(t, dir, apiServerOnly)
	if _, err := again.admin(t).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	sockets, err := os.ReadFile(filepath.Join(dir, "run-dir"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, code := simcluster(t, "delete", "--data-dir", dir); code != 3 {
		t.Errorf("deleting a running cluster has exit code %d, want 3", code)
	}
	again.stop(t)
	if _, err := os.Stat(strings.TrimSpace(string(sockets))); err == nil {
		t.Errorf("%s was left behind", sockets)
	}
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "delete", "--data-dir", dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "foreign" {
		t.Errorf("the deletion left %v (%v), want what others made only", left, err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	succeed(t, "delete", "--data-dir", dir)
}

// runsPod wants a pod to run on the podhost, also after the podhost was killed.
func runsPod(t *testing.T, c *cluster, image string) {
	t.Helper()
	self, err := os.Executable() // In place of the program of a hollow node.
	if err == nil {
		err = os.Symlink(self, filepath.Join(image, hollowNode))
	}
	if err != nil {
		t.Fatal(err)
	}
	const namespace = "hollowfleet"
	admin := c.admin(t)
	if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := agentPod(t)
	pod.Name, pod.Labels["hollowfleet.io/machine-name"], pod.Spec.Volumes[0].Secret.SecretName = "sleeper", "sleeper", "sleeper"
	main := &pod.Spec.Containers[0]
	main.Image, main.StartupProbe, main.ReadinessProbe, main.LivenessProbe = "sleeper", nil, nil, nil
	letEdit(t, admin, namespace, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: agentsGroup})
	agent := c.as(t, "hollowfleet-agent", agentsGroup)
	within(t, patience, "the Secret of the pod is created", func() error {
		_, err := agent.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sleeper"}}, metav1.CreateOptions{})
		return err
	})
	within(t, patience, "the pod is created", func() error { // The namespace's ServiceAccount comes by itself.
		_, err := agent.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	running := func() error {
		found, err := admin.CoreV1().Pods(namespace).Get(ctx, "sleeper", metav1.GetOptions{})
		if err == nil && (found.Status.Phase != corev1.PodRunning || !found.Status.ContainerStatuses[0].Ready) {
			err = fmt.Errorf("it is %s: %+v", found.Status.Phase, found.Status.ContainerStatuses)
		}
		return err
	}
	within(t, patience, "the pod runs", running)
	succeed(t, "component", "kill", controlplane.Podhost, "--data-dir", c.dir)
	within(t, patience, "the podhost is back", func() error {
		status, _ := c.status(t)
		if podhost := status.Components[controlplane.Podhost]; !podhost.Healthy || podhost.Restarts != 1 {
			return fmt.Errorf("it is %+v", podhost)
		}
		return running()
	})
	node, err := admin.CoreV1().Nodes().Get(ctx, c.ready(t).PodhostNode, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pods := node.Status.Capacity.Pods().Value(); node.Name != "c1-podhost" || pods != 7 {
		t.Errorf("node %s offers %d pods, want c1-podhost and the 7 of the flag", node.Name, pods)
	}
}

// A Go program that panics ends like one that gets SIGABRT: all of it, with the goroutines on its standard error.
// Edge case: A podhost's panic ended the control plane.
func TestACrashOfThePodhostLeavesTheControlPlane(t *testing.T) {
	dir := t.TempDir()
	c := startCluster(t, dir, strings.Join(controlplane.AllComponents, ","))
	before := c.ready(t)
	podhost := before.Components[controlplane.Podhost].PID
	if podhost == before.SupervisorPID {
		t.Fatal("the podhost is the supervisor's process: a panic in it ends the control plane")
	}
	if err := syscall.Kill(podhost, syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	within(t, startPatience, "the podhost is back", func() error {
		status, _ := c.status(t)
		if podhost := status.Components[controlplane.Podhost]; !podhost.Healthy || podhost.Restarts != 1 {
			return fmt.Errorf("it is %+v", podhost)
		}
		return nil
	})
	after := c.ready(t)
	for _, component := range []string{controlplane.Etcd, controlplane.APIServer, controlplane.ControllerManager, controlplane.Scheduler} {
		if was, is := before.Components[component].PID, after.Components[component].PID; was != is {
			t.Errorf("%s was process %d and is %d: it was restarted as well", component, was, is)
		}
	}
	log, err := os.ReadFile(after.Components[controlplane.Podhost].Log)
	if err != nil || !strings.Contains(string(log), "SIGABRT") {
		t.Errorf("the podhost's log does not tell of the crash (%v)", err)
	}
	c.stop(t)
}

// Claim: Parent death ends a simulated cluster. Broken: the parent is not watched.
func TestClusterEndsWithItsParent(t *testing.T) {
	dir := t.TempDir()
	// The shell is the parent; the word after the command keeps it from
	// becoming simcluster itself.
	shell := exec.Command("/bin/sh", "-c", `"$0" start --name c1 --data-dir "$1" --components `+apiServerOnly+` & echo $!; wait; exit 0`, binary(t), dir)
	output, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	lines.Scan()
	supervisor, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatalf("the shell printed %q", lines.Text())
	}
	t.Cleanup(func() { _ = syscall.Kill(supervisor, syscall.SIGKILL) })
	within(t, startPatience, "the cluster is ready", func() error {
		_, err := controlplane.ReadReady(dir)
		return err
	})
	all := append(descendants(t, supervisor), supervisor)
	if len(all) != 3 {
		t.Errorf("the cluster has the processes %v, want 3", all)
	}
	// No reader takes the progress any more, which may not disturb the stop.
	if err := errors.Join(output.Close(), shell.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the cluster is gone after its parent", gone(all))
	if _, err := os.Stat(filepath.Join(dir, "ready.json")); err == nil {
		t.Error("the stop was not in order: ready.json is there")
	}
	_ = shell.Wait()
}

func TestWatchedProcessIsGoneAlready(t *testing.T) {
	other := exec.Command("/bin/true")
	if err := other.Run(); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := simcluster(t, "start", "--name", "c1", "--data-dir", t.TempDir(), "--components", apiServerOnly, "--parent-pid", strconv.Itoa(other.Process.Pid))
	if code != 1 || !strings.Contains(stderr, "gone") {
		t.Errorf("exit code %d and %q, want 1 and that the process is gone", code, stderr)
	}
}

func TestPorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	dir := t.TempDir()
	_, stderr, code := simcluster(t, "start", "--name", "c1", "--data-dir", dir, "--components", apiServerOnly, "--apiserver-port", port)
	if code != 4 || !strings.Contains(stderr, "--apiserver-port="+port) || !strings.Contains(stderr, "--apiserver-port=0") {
		t.Errorf("a taken port that was asked for gives exit code %d and %q, want 4, the flag and the remedy", code, stderr)
	}
	if testing.Short() {
		t.Skip("make test-long starts control planes on ports that are given, chosen, and taken meanwhile")
	}

	taken.Close()
	given := startCluster(t, dir, apiServerOnly, "--apiserver-port", port)
	if got, want := given.admin(t).CoreV1().RESTClient().Get().URL().Host, "127.0.0.1:"+port; got != want {
		t.Errorf("the admin kubeconfig leads to %s, want %s", got, want)
	}
	if _, err := given.admin(t).CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the admin kubeconfig with a port that was given: %v", err)
	}
	given.stop(t)

	// From here on the port is one that was chosen.
	c := startCluster(t, dir, apiServerOnly, "--apiserver-port", "0")
	before := c.ready(t)
	server, err := url.Parse(before.Server)
	if err != nil {
		t.Fatal(err)
	}
	c.stop(t)
	thief, err := net.Listen("tcp", server.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	moved := startCluster(t, dir, apiServerOnly)
	if after := moved.ready(t); after.Server == before.Server {
		t.Errorf("the server is still %s, which another process has", after.Server)
	}
	if _, err := moved.admin(t).CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the admin kubeconfig after the move: %v", err)
	}
}

// Every wrong call says what is wrong and with which exit code.
func TestWrongCalls(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"start --data-dir DIR/none --components etcd": {2, "--name"},
		"start --name c1":                                             {2, "--data-dir"},
		"start --name C1 --data-dir DIR":                              {2, "--name"},
		"start --name c1 --data-dir DIR --nonsense":                   {2, "nonsense"},
		"start --name c1 --data-dir DIR --listen localhost":           {2, "--listen"},
		"start --name c1 --data-dir DIR --components etcd,kubelet":    {2, "kubelet"},
		"start --name c1 --data-dir DIR --image a":                    {2, "NAME=DIR"},
		"start --name c1 --data-dir DIR --image a=DIR/none":           {2, "no such file"},
		"start --name c1 --data-dir DIR --image a=DIR/file":           {2, "not a directory"},
		"start --name c1 --data-dir DIR --image a=DIR --image a=DIR":  {2, "twice"},
		"start --name c1 --data-dir DIR --podhost-capacity cpu":       {2, "resource=amount"},
		"start --name c1 --data-dir DIR --podhost-capacity cpu=many":  {2, "cpu=many"},
		"start --name c1 --data-dir DIR --podhost-capacity cpu=-1":    {2, "negative"},
		"start --name c1 --data-dir DIR --apiserver-arg v":            {2, "key=value"},
		"start --name c1 --data-dir DIR/file/below --components etcd": {1, "not a directory"},
		"start --name c1 --data-dir DIR superfluous":                  {2, "superfluous"},
		"status --data-dir DIR":                                       {6, "no cluster is running"},
		"status":                                                      {2, "--data-dir"},
		"status --data-dir DIR -o yaml":                               {2, "yaml"},
		"stop --data-dir DIR":                                         {6, "no cluster is running"},
		"component kill etcd --data-dir DIR":                          {6, "no cluster is running"},
		"component kill --data-dir DIR":                               {2, "arg"},
		"kubeconfig --data-dir DIR --user u":                          {6, "no cluster was ever started"},
		"kubeconfig --data-dir DIR":                                   {2, "--user"},
		"kubeconfig --data-dir DIR --user u --ttl -1h":                {2, "--ttl"},
		"nonsense": {2, "nonsense"},
	} {
		stdout, stderr, code := simcluster(t, strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)
		if code != want.code || !strings.Contains(stderr, want.text) {
			t.Errorf("%s: exit code %d and %q, want %d and %q", args, code, stderr, want.code, want.text)
		}
		if stdout != "" {
			t.Errorf("%s: printed %q on standard output", args, stdout)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the wrong calls left %v, %v; want the file alone", entries, err)
	}
}

func TestFailedStartShowsTheReason(t *testing.T) {
	dir := t.TempDir()
	_, stderr, code := simcluster(t, "start", "--name", "c1", "--data-dir", dir, "--components", apiServerOnly, "--apiserver-arg", "no-such-flag=1")
	if code != 5 || !strings.Contains(stderr, "no-such-flag") || !strings.Contains(stderr, "kube-apiserver.log") {
		t.Errorf("exit code %d and %q, want 5, the reason and the log", code, stderr)
	}
	_, stderr, code = simcluster(t, "start", "--name", "c1", "--data-dir", dir, "--components", apiServerOnly, "--ready-timeout", "500ms")
	if code != 5 || !strings.Contains(stderr, "500ms") {
		t.Errorf("exit code %d and %q, want 5 and the time", code, stderr)
	}
	refused := filepath.Join(t.TempDir(), "refused.yaml")
	if err := os.WriteFile(refused, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code = simcluster(t, "start", "--name", "c1", "--data-dir", dir, "--components", apiServerOnly, "--manifest", refused, "--ready-timeout", "1m")
	if code != 5 || !strings.Contains(stderr, "applying ConfigMap Not_A_Name of a manifest") || strings.Contains(stderr, "become ready within") {
		t.Errorf("exit code %d and %q, want 5 and what was refused, without waiting for the ready timeout", code, stderr)
	}
	within(t, patience, "the lock is free", func() error {
		if _, _, code := simcluster(t, "status", "--data-dir", dir); code != 6 {
			return fmt.Errorf("status has exit code %d", code)
		}
		return nil
	})
}
