package group_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/group"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = 8 * time.Minute
	poll     = 100 * time.Millisecond
	// stopBound is how long a stop may take although clients watch: three times the graces of the components together.
	stopBound    = 20 * time.Second
	withoutPods  = "etcd,kube-apiserver,kube-controller-manager,kube-scheduler"
	exitInUse    = 3
	exitNotReady = 5
)

func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(os.Getenv("HOLLOWFLEET_BIN"), "simcluster")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("HOLLOWFLEET_BIN has no simcluster: build it with \"make build\": %v", err)
	}
	return path
}

// simcluster runs the program to its end.
func simcluster(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary(t), args...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	_ = command.Run()
	return out.String(), command.ProcessState.ExitCode()
}

// env is a group with the directories of its clusters.
type env struct {
	dir, group string
	// components are those of each cluster.
	components string
	process    *exec.Cmd
	output     bytes.Buffer
}

func newEnv(t *testing.T, groupArgs ...string) *env {
	t.Helper()
	dir, err := os.MkdirTemp("", "group") //nolint:usetesting // The path of a test's own directory is too long for a socket.
	if err != nil {
		t.Fatal(err)
	}
	b := &env{dir: dir, group: filepath.Join(dir, "g"), components: withoutPods}
	b.process = exec.Command(binary(t), append([]string{"group", "--dir", b.group}, groupArgs...)...)
	b.process.Stdout, b.process.Stderr = &b.output, &b.output
	if err := b.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(b.group, "planes.log"))
			t.Logf("the group:\n%s\nits process:\n%s", b.output.String(), failures(log))
		}
		_ = b.process.Process.Signal(syscall.SIGTERM)
		if err := b.process.Wait(); err != nil {
			t.Errorf("the group: %v\n%s", err, b.output.String())
		}
		if _, err := os.Stat(b.group); err == nil {
			t.Error("the group's directory is still there")
		}
		os.RemoveAll(dir)
	})
	eventually(t, "the group to answer", func() bool { _, err := group.FetchStatus(t.Context(), b.group); return err == nil })
	return b
}

// failures are the parts of the log that say why the process has ended.
func failures(log []byte) []byte {
	const most = 4 << 10
	var found []byte
	for _, start := range []string{"panic: ", "fatal error: ", "wanted to exit"} {
		if at := bytes.Index(log, []byte(start)); at >= 0 {
			found = append(found, log[at:min(len(log), at+most)]...)
		}
	}
	return found
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), poll, patience, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func (b *env) data(name string) string { return filepath.Join(b.dir, name) }

func (b *env) startArgs(name string) []string {
	return []string{"start", "--group", b.group, "--name", name, "--data-dir", b.data(name), "--components", b.components}
}

// start starts a cluster in the group.
func (b *env) start(t *testing.T, name string) {
	t.Helper()
	if output, code := simcluster(t, b.startArgs(name)...); code != 0 {
		t.Fatalf("starting %s: exit code %d\n%s", name, code, output)
	}
}

func (b *env) stop(t *testing.T, name string) {
	t.Helper()
	if output, code := simcluster(t, "stop", "--data-dir", b.data(name)); code != 0 {
		t.Fatalf("stopping %s: exit code %d\n%s", name, code, output)
	}
}

func (b *env) client(t *testing.T, name string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.data(name), "kubeconfigs", "admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return kubernetes.NewForConfigOrDie(config)
}

func (b *env) healthy(t *testing.T, name string) bool {
	t.Helper()
	status, err := controlplane.FetchStatus(t.Context(), b.data(name))
	return err == nil && status.Healthy
}

// mark writes something that must be found again.
func (b *env) mark(t *testing.T, name string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mark"}, Data: map[string]string{"of": name}}
	if _, err := b.client(t, name).CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (b *env) wantMark(t *testing.T, name string) {
	t.Helper()
	found, err := b.client(t, name).CoreV1().ConfigMaps("default").Get(t.Context(), "mark", metav1.GetOptions{})
	if err != nil || found.Data["of"] != name {
		t.Errorf("the data of %s: %v, %v", name, found.Data, err)
	}
}

// Claim: Clusters of a group keep data and port in both modes, and outlive their shared processes. Broken: a listener severed; a podhost among the control planes.
func TestGroup(t *testing.T) {
	b := newEnv(t)
	b.components += "," + controlplane.Podhost
	for _, name := range []string{"c1", "c2"} {
		b.start(t, name)
		b.mark(t, name)
	}
	t.Run("a data directory has one owner", func(t *testing.T) {
		for _, args := range [][]string{b.startArgs("c1"), {"start", "--name", "c1", "--data-dir", b.data("c1")}, {"group", "--dir", b.group}, {"delete", "--data-dir", b.data("c1")}} {
			if output, code := simcluster(t, args...); code != exitInUse {
				t.Errorf("%v: exit code %d: %s", args, code, output)
			}
		}
	})
	t.Run("what hits others is refused", func(t *testing.T) {
		for _, action := range []string{"kill", "pause", "resume"} {
			for _, component := range []string{controlplane.Etcd, controlplane.Podhost} {
				if output, code := simcluster(t, "component", action, component, "--data-dir", b.data("c1")); code == 0 || !strings.Contains(output, "--isolation=process") {
					t.Errorf("%s %s: exit code %d: %s", action, component, code, output)
				}
			}
		}
		for _, action := range []string{"stop", "start"} {
			if output, code := simcluster(t, "component", action, "kube-scheduler", "--data-dir", b.data("c1")); code != 0 {
				t.Errorf("%s: exit code %d: %s", action, code, output)
			}
		}
	})
	t.Run("the podhosts are killed", func(t *testing.T) { b.killPodhosts(t, "c1", "c2") })
	t.Run("the shared process is killed", func(t *testing.T) { b.killProcess(t) })
	t.Run("a cluster moves to processes of its own and back", func(t *testing.T) { b.move(t, "c1") })
	t.Run("a start is killed", func(t *testing.T) { b.killStart(t) })
	t.Run("a cluster with broken data fails alone", func(t *testing.T) { b.breakData(t) })
	t.Run("a stop does not wait for watchers", func(t *testing.T) {
		watcher, err := b.client(t, "c2").CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
		began := time.Now()
		b.stop(t, "c2")
		if took := time.Since(began); took > stopBound {
			t.Errorf("it took %s", took)
		}
		if !b.healthy(t, "c1") {
			t.Error("c1 is not healthy")
		}
	})
}

// killPodhosts kills the process of the podhosts: they come back, each in its own cluster, and the control planes notice nothing.
func (b *env) killPodhosts(t *testing.T, names ...string) {
	before, err := group.FetchStatus(t.Context(), b.group)
	if err != nil || before.Podhosts.PID == 0 || before.Podhosts.PID == before.Process.PID {
		t.Fatalf("the podhosts have no process of their own: %+v, %v", before, err)
	}
	for _, name := range names {
		if ready, err := controlplane.ReadReady(b.data(name)); err != nil || ready.Components[controlplane.Podhost].PID != before.Podhosts.PID {
			t.Fatalf("ready.json of %s: %+v, %v", name, ready, err)
		}
	}
	signal(t, before.Podhosts.PID, syscall.SIGKILL)
	for _, name := range names {
		eventually(t, "another podhost of "+name, func() bool {
			status, err := controlplane.FetchStatus(t.Context(), b.data(name))
			podhost := status.Components[controlplane.Podhost]
			return err == nil && status.Healthy && podhost.Restarts == 1 && podhost.PID != before.Podhosts.PID
		})
		nodes, err := b.client(t, name).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != name+"-podhost" {
			t.Errorf("the nodes of %s: %+v, %v", name, nodes, err)
		}
		eventually(t, "an event in "+name, func() bool {
			events, err := b.client(t, name).CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=PodhostEnded"})
			return err == nil && len(events.Items) == 1 && events.Items[0].InvolvedObject.Name == name+"-podhost"
		})
	}
	after, err := group.FetchStatus(t.Context(), b.group)
	if err != nil || after.Process != before.Process || after.Podhosts.Restarts != 1 || !strings.Contains(after.Podhosts.LastExit, "killed") {
		t.Errorf("the group: %+v, then %+v, %v", before, after, err)
	}
}

// killProcess kills the shared process, also while a cluster starts there.
func (b *env) killProcess(t *testing.T) {
	starting := exec.CommandContext(t.Context(), binary(t), b.startArgs("c3")...)
	var output bytes.Buffer
	starting.Stdout, starting.Stderr = &output, &output
	if err := starting.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the start of c3 to begin", func() bool {
		status, err := controlplane.FetchStatus(t.Context(), b.data("c3"))
		return err == nil && status.Components[controlplane.Etcd].Healthy
	})
	before, err := group.FetchStatus(t.Context(), b.group)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(before.Process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := starting.Wait(); err != nil {
		t.Errorf("the start of c3: %v\n%s", err, output.String())
	}
	for _, name := range []string{"c1", "c2"} {
		eventually(t, name+" to be healthy again", func() bool { return b.healthy(t, name) })
		b.wantMark(t, name)
	}
	var recorded group.Status
	content, err := os.ReadFile(filepath.Join(b.group, "status.json"))
	if err == nil {
		err = json.Unmarshal(content, &recorded)
	}
	if err != nil || recorded.Process.Restarts != 1 || !strings.Contains(recorded.Process.LastExit, "killed") || recorded.Process.PID == before.Process.PID {
		t.Errorf("status.json: %s, %v", content, err)
	}
	if ready, err := controlplane.ReadReady(b.data("c1")); err != nil || ready.Components[controlplane.Etcd].PID != recorded.Process.PID || ready.Isolation != controlplane.IsolationShared {
		t.Errorf("ready.json: %+v, %v", ready, err)
	}
}

func (b *env) move(t *testing.T, name string) {
	inGroup, err := controlplane.ReadReady(b.data(name))
	if err != nil {
		t.Fatal(err)
	}
	b.stop(t, name)
	alone := exec.CommandContext(t.Context(), binary(t), "start", "--name", name, "--data-dir", b.data(name), "--components", b.components)
	if err := alone.Start(); err != nil {
		t.Fatal(err)
	}
	var ready controlplane.Ready
	eventually(t, name+" in processes of its own", func() bool {
		ready, err = controlplane.ReadReady(b.data(name))
		return err == nil && ready.SupervisorPID == alone.Process.Pid
	})
	if ready.Isolation != controlplane.IsolationProcess || ready.Group != "" || ready.Server != inGroup.Server {
		t.Errorf("ready.json: %+v", ready)
	}
	b.wantMark(t, name)
	b.stop(t, name)
	if err := alone.Wait(); err != nil {
		t.Error(err)
	}
	b.start(t, name)
	b.wantMark(t, name)
}

// killStart kills the client of a start: the cluster does not become ready, and its place is free.
func (b *env) killStart(t *testing.T) {
	starting := exec.CommandContext(t.Context(), binary(t), b.startArgs("c4")...)
	if err := starting.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the start of c4 to begin", func() bool {
		_, err := controlplane.FetchStatus(t.Context(), b.data("c4"))
		return err == nil
	})
	_ = starting.Process.Kill()
	_ = starting.Wait()
	eventually(t, "the place of c4 to be free", func() bool {
		status, err := group.FetchStatus(t.Context(), b.group)
		return err == nil && !strings.Contains(strings.Join(status.Clusters, " "), b.data("c4"))
	})
	if output, code := simcluster(t, "delete", "--data-dir", b.data("c4")); code != 0 {
		t.Errorf("deleting c4: exit code %d: %s", code, output)
	}
}

func (b *env) breakData(t *testing.T) {
	b.stop(t, "c3")
	database := filepath.Join(b.data("c3"), "etcd", "member", "snap", "db")
	if err := os.Remove(database); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(database, 0o700); err != nil {
		t.Fatal(err)
	}
	output, code := simcluster(t, b.startArgs("c3")...)
	if code != exitNotReady || !strings.Contains(output, "etcd") {
		t.Errorf("exit code %d: %s", code, output)
	}
	for _, name := range []string{"c1", "c2"} {
		if !b.healthy(t, name) {
			t.Errorf("%s is not healthy", name)
		}
	}
	status, err := group.FetchStatus(t.Context(), b.group)
	if err != nil || status.Process.Restarts != 1 {
		t.Errorf("the shared process has ended: %+v, %v", status.Process, err)
	}
}
