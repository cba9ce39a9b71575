package fakecri_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

// runSandbox runs the sandbox of a pod and says how that ended.
func runSandbox(ctx context.Context, r *fakecri.Runtime, uid string) <-chan error {
	done := make(chan error, 1)
	go func() {
		config := &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "a", Uid: uid},
			Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
			}},
		}
		_, err := r.RunPodSandbox(ctx, config, "")
		done <- err
	}()
	return done
}

func TestPodsStartAsTheGateLetsThem(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	r := fakecri.New(fakecri.Options{Name: "hollow", Version: "1.0", Clock: clock})
	await := func(what string, done <-chan error, want string) {
		t.Helper()
		select {
		case err := <-done:
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it hangs", what)
		}
	}
	waits := func(done <-chan error) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			return clock.HasWaiters(), nil
		})
		if err != nil {
			t.Fatalf("the pod does not wait: %v", err)
		}
		select {
		case err := <-done:
			t.Fatalf("the pod does not wait: %v", err)
		default:
		}
	}
	await("undisturbed", runSandbox(t.Context(), r, "u0"), "")

	r.Gate().DisturbPodStarts(func(uid string) (time.Duration, string) {
		if uid == "failing" {
			return 0, "disrupted by outage"
		}
		return 5 * time.Second, ""
	})
	await("one that fails", runSandbox(t.Context(), r, "failing"), "failed to start the sandbox of pod a/p: disrupted by outage")
	done := runSandbox(t.Context(), r, "u1")
	waits(done)
	clock.Step(4999 * time.Millisecond)
	waits(done)
	clock.Step(time.Millisecond)
	await("after the delay", done, "")

	done = runSandbox(t.Context(), r, "u2")
	waits(done)
	r.Gate().DisturbPodStarts(nil)
	await("at the end of the disruption", done, "")

	r.Gate().DisturbPodStarts(func(string) (time.Duration, string) { return time.Hour, "" })
	ctx, cancel := context.WithCancel(t.Context())
	done = runSandbox(ctx, r, "u3")
	waits(done)
	cancel()
	await("a pod that is deleted meanwhile", done, "canceled")
}
