package plane_test

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// cyclesVariable has the number of cycles; the usual number is small, because each takes seconds.
	cyclesVariable = "HOLLOWFLEET_PLANE_CYCLES"
	usualCycles    = 5
	// goroutinesPerCycle and bytesPerCycle may stay of a plane that was stopped.
	goroutinesPerCycle = 2
	bytesPerCycle      = 1 << 20
)

// Claim: A stopped control plane leaves next to nothing in its shared process. Broken: a thread kept.
func TestCyclesLeaveNothing(t *testing.T) {
	cycles := usualCycles
	if given, err := strconv.Atoi(os.Getenv(cyclesVariable)); err == nil {
		cycles = given
	}
	dir := filepath.Join(shortDir(t), "p")
	// What is made once for all planes is not counted.
	start(t, "p", dir).end(t)
	goroutines, heap := settle(t)
	t.Logf("after the first stop: %d goroutines, %d KiB", goroutines, heap>>10)
	for i := range cycles {
		began := time.Now()
		c := start(t, "p", dir)
		started := time.Since(began)
		c.end(t)
		now, bytes := settle(t)
		t.Logf("cycle %d: started in %s, stopped in %s; %d goroutines, %d KiB", i+1, started.Round(time.Millisecond), (time.Since(began) - started).Round(time.Millisecond), now, bytes>>10)
	}
	now, bytes := settle(t)
	if more := now - goroutines; more > goroutinesPerCycle*cycles {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		t.Errorf("%d goroutines more after %d cycles, at most %d a cycle may stay", more, cycles, goroutinesPerCycle)
	}
	if more := int64(bytes) - int64(heap); more > bytesPerCycle*int64(cycles) {
		t.Errorf("%d KiB more after %d cycles, at most %d a cycle may stay", more>>10, cycles, bytesPerCycle>>10)
	}
}

// settle waits until goroutines that are ending have, and returns how many there are and how much memory is in use.
func settle(t *testing.T) (goroutines int, heap uint64) {
	t.Helper()
	const settled = 20
	// Some end when what they wait for is collected.
	runtime.GC()
	runtime.GC()
	goroutines = runtime.NumGoroutine()
	for same := 0; same < settled; same++ {
		<-time.After(100 * time.Millisecond)
		if now := runtime.NumGoroutine(); now != goroutines {
			goroutines, same = now, 0
		}
	}
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return goroutines, stats.HeapAlloc
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			},
		},
	}
}
