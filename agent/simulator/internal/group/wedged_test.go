package group_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/group"
)

const (
	// neighbourWrites are written to the neighbour of a wedged cluster. Each may take writeBound, and all of them together twice the
	// processor time of a calm group, and cpuBound more.
	neighbourWrites = 60
	writeBound      = 5 * time.Second
	cpuBound        = time.Second
	// smallDisk and smallQuota are the file system and the database of the cluster that is wedged, in bytes.
	smallDisk  = 128 << 20
	smallQuota = 24 << 20
	// largeObject is the size of what fills them.
	largeObject = 400 << 10
	// heldWatches and heldWrites are clients of a cluster that are never answered. Its API server works on 100 writes at once.
	heldWatches, heldWrites = 400, 120
	// fullTimes is how often the disk is full. The first member that fails may close well, and a later one never.
	fullTimes = 2
)

// wedged is a group with a cluster c1, whose disk and database are small, and its neighbour c2.
type wedged struct {
	*env
	disk, ballast string
	// calm is the processor time of the neighbour's writes while all is well.
	calm time.Duration
}

// Claim: A wedged cluster slows no other of its process, and recovers. Broken: the locks of a failed etcd kept.
func TestAWedgedClusterDoesNotSlowItsNeighbour(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	b := &wedged{env: newEnv(t)}
	b.mountDisk(t)
	args := append(b.startArgs("c1"), "--etcd-arg", fmt.Sprintf("quota-backend-bytes=%d", smallQuota))
	if output, code := simcluster(t, args...); code != 0 {
		t.Fatalf("starting c1: exit code %d\n%s", code, output)
	}
	b.start(t, "c2")
	b.mark(t, "c1")
	b.mark(t, "c2")
	_, b.calm = b.writeNeighbour(t)
	t.Run("held requests", func(t *testing.T) { b.holdRequests(t) })
	t.Run("full database", func(t *testing.T) { b.fillDatabase(t) })
	t.Run("full disk", func(t *testing.T) { b.fillDisk(t) })
	b.wantMark(t, "c1")
	b.wantMark(t, "c2")
}

// mountDisk makes the data directory of c1 a small file system.
func (b *wedged) mountDisk(t *testing.T) {
	t.Helper()
	b.disk = b.data("c1")
	b.ballast = filepath.Join(b.disk, "ballast")
	if err := os.Mkdir(b.disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", b.disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", smallDisk)); err != nil {
		t.Skipf("a small file system cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(b.disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", b.disk, err)
		}
	})
}

// expectCalmNeighbour wants that writes to the neighbour keep their bounds.
func (b *wedged) expectCalmNeighbour(t *testing.T) {
	t.Helper()
	slowest, cpu := b.writeNeighbour(t)
	t.Logf("%d writes to c2: the slowest took %s, together %s of processor time; %s while all was well", neighbourWrites, slowest, cpu, b.calm)
	if slowest > writeBound {
		t.Errorf("a write to c2 took %s, want at most %s", slowest, writeBound)
	}
	if most := 2*b.calm + cpuBound; cpu > most {
		t.Errorf("%d writes to c2 took %s of processor time, want at most %s", neighbourWrites, cpu, most)
	}
}

// writeNeighbour writes to c2, and returns how long the slowest write took and how much processor time the shared process used meanwhile.
func (b *wedged) writeNeighbour(t *testing.T) (slowest, cpu time.Duration) {
	t.Helper()
	objects := b.client(t, "c2").CoreV1().ConfigMaps("default")
	shared, err := group.FetchStatus(t.Context(), b.group)
	if err != nil {
		t.Fatal(err)
	}
	before := processorTime(t, shared.Process.PID)
	for range neighbourWrites {
		began := time.Now()
		if _, err := objects.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "beat-"}}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("writing to c2: %v", err)
		}
		slowest = max(slowest, time.Since(began))
	}
	return slowest, processorTime(t, shared.Process.PID) - before
}

// processorTime is what the process has used so far.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	const tick = 10 * time.Millisecond
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The fields after the name begin with the third; user and system time are the 14th and 15th.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	var used time.Duration
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		used += time.Duration(ticks) * tick
	}
	return used
}

// holdRequests lets watchers of c1 wait for events that never come, and writers for a webhook that never answers.
func (b *wedged) holdRequests(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := b.client(t, "c1")
	hooks := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := hooks.Create(t.Context(), silentHook(silent.Addr().String()), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, release := context.WithCancel(t.Context())
	var held sync.WaitGroup
	for range heldWatches {
		watcher, err := client.CoreV1().Secrets("").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
	}
	for range heldWrites {
		held.Go(func() {
			_, _ = client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{GenerateName: "held-"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		})
	}
	if conn, err := silent.Accept(); err == nil {
		defer conn.Close() // The first one is held.
	}
	b.expectCalmNeighbour(t)
	release()
	held.Wait()
	if err := hooks.Delete(t.Context(), "silent", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// silentHook asks an address about each new Service.
func silentHook(address string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	url, fail, none, seconds := "https://"+address, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(30)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "silent"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "silent.example.com", FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
		Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"},
		}}},
	}}}
}

// fillDatabase writes to c1 until its etcd refuses, which says so, and deletes what was written.
func (b *wedged) fillDatabase(t *testing.T) {
	b.writeUntilRefused(t, func(err error) bool { return strings.Contains(err.Error(), "database space exceeded") })
	b.expectCalmNeighbour(t)
	if got := b.problem(t); !strings.Contains(got, "etcd out of space") || !strings.Contains(got, "quota-backend-bytes") {
		t.Errorf("status of c1: %q", got)
	}
	eventually(t, "ready.json to say that etcd is full", func() bool {
		ready, err := controlplane.ReadReady(b.disk)
		return err == nil && strings.Contains(ready.Components[controlplane.Etcd].Problem, "etcd out of space")
	})
	b.deleteLarge(t)
	eventually(t, "c1 to take writes again", func() bool { return b.problem(t) == "" && b.writeLarge(t) == nil })
	b.deleteLarge(t)
}

// fillDisk fills the disk of c1 until its etcd has ended, several times.
func (b *wedged) fillDisk(t *testing.T) {
	for i := range fullTimes {
		b.writeBallast(t)
		b.writeUntilRefused(t, func(error) bool { return b.isDiskFull(t) })
		b.expectCalmNeighbour(t)
		if i == 0 {
			b.killWithFullDisk(t)
		}
		if err := os.Remove(b.ballast); err != nil {
			t.Fatal(err)
		}
		eventually(t, "c1 to be healthy again", func() bool { return b.healthy(t, "c1") })
		b.deleteLarge(t)
	}
	b.writeBallast(t)
	began := time.Now()
	b.stop(t, "c1")
	if took := time.Since(began); took > stopBound {
		t.Errorf("the stop of c1 took %s", took)
	}
	if output, code := simcluster(t, b.startArgs("c1")...); code != exitNotReady || !strings.Contains(output, "etcd out of space") {
		t.Errorf("the start of c1 on a full disk: exit code %d\n%s", code, output)
	}
	if err := os.Remove(b.ballast); err != nil {
		t.Fatal(err)
	}
	b.start(t, "c1")
}

// killWithFullDisk ends the shared process while c1 cannot start.
func (b *wedged) killWithFullDisk(t *testing.T) {
	status, err := group.FetchStatus(t.Context(), b.group)
	if err != nil {
		t.Fatal(err)
	}
	signal(t, status.Process.PID, syscall.SIGKILL)
	eventually(t, "another process", func() bool {
		now, err := group.FetchStatus(t.Context(), b.group)
		return err == nil && now.Process.PID != 0 && now.Process.PID != status.Process.PID
	})
	eventually(t, "c2 to be healthy again", func() bool { return b.healthy(t, "c2") })
	if !b.isDiskFull(t) {
		t.Errorf("status of c1: %q", b.problem(t))
	}
}

// problem is what "simcluster status" says of the etcd of c1.
func (b *wedged) problem(t *testing.T) string {
	t.Helper()
	status, err := controlplane.FetchStatus(t.Context(), b.disk)
	if err != nil {
		t.Fatal(err)
	}
	return status.Components[controlplane.Etcd].Message
}

func (b *wedged) isDiskFull(t *testing.T) bool {
	t.Helper()
	return strings.Contains(b.problem(t), "free some space")
}

// writeBallast fills the disk.
func (b *wedged) writeBallast(t *testing.T) {
	t.Helper()
	file, err := os.Create(b.ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func (b *wedged) large(t *testing.T, use func(ctx context.Context, client kubernetes.Interface) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	return use(ctx, b.client(t, "c1"))
}

// writeLarge writes a large object to c1.
func (b *wedged) writeLarge(t *testing.T) error {
	t.Helper()
	return b.large(t, func(ctx context.Context, client kubernetes.Interface) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "large-", Labels: map[string]string{"large": "yes"}}, Data: map[string]string{"x": strings.Repeat("x", largeObject)}}
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}

func (b *wedged) deleteLarge(t *testing.T) {
	t.Helper()
	eventually(t, "deletions in c1", func() bool {
		return b.large(t, func(ctx context.Context, client kubernetes.Interface) error {
			return client.CoreV1().ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "large"})
		}) == nil
	})
}

// writeUntilRefused writes to c1 until a write fails in the way that is wanted.
func (b *wedged) writeUntilRefused(t *testing.T, wanted func(error) bool) {
	t.Helper()
	eventually(t, "c1 to refuse writes", func() bool {
		err := error(nil)
		for written := 0; err == nil && written < smallDisk/largeObject; written++ {
			err = b.writeLarge(t)
		}
		return err != nil && wanted(err)
	})
}
