package fakecri

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// inBubble runs a test in which time is fake, and hands it a running container.
func inBubble(t *testing.T, options Options, annotations map[string]string, test func(f env, sandbox, id string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := env{T: t, Runtime: New(options)}
		f.setCIDR("10.1.0.0/24")
		config := podConfig("p", annotations)
		sandbox := f.run(config)
		test(f, sandbox, f.start(sandbox, "c", config))
	})
}

// pass lets the fake time of a bubble pass.
func pass(duration time.Duration) { <-time.After(duration) }

func TestContainersTakeTheirPartOfTheGracePeriod(t *testing.T) {
	for name, test := range map[string]struct {
		percent     int32
		annotations map[string]string
		grace       int64
		took        time.Duration
		exitCode    int32
	}{
		"nothing of it":                     {0, nil, 30, 0, 143},
		"nothing of none":                   {0, nil, 0, 0, 143},
		"half of it":                        {50, nil, 10, 5 * time.Second, 143},
		"a tenth of a second":               {10, nil, 1, 100 * time.Millisecond, 143},
		"all of it":                         {100, nil, 10, 10 * time.Second, 137},
		"half of none":                      {50, nil, 0, 0, 137},
		"a negative one":                    {50, nil, -1, 0, 137},
		"the annotation":                    {50, map[string]string{TerminatesAfterAnnotation: "3s"}, 10, 3 * time.Second, 143},
		"the annotation alone":              {0, map[string]string{TerminatesAfterAnnotation: "3s"}, 10, 3 * time.Second, 143},
		"an annotation of nothing":          {50, map[string]string{TerminatesAfterAnnotation: "0s"}, 10, 0, 143},
		"an annotation of too much":         {0, map[string]string{TerminatesAfterAnnotation: "1m"}, 10, 10 * time.Second, 137},
		"its lifetime, if that ends sooner": {50, map[string]string{ExitAfterAnnotation: "2s", ExitCodeAnnotation: "7"}, 10, 2 * time.Second, 7},
		"a period longer than time":         {0, map[string]string{TerminatesAfterAnnotation: "1h"}, 1 << 62, time.Hour, 143},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{TerminationPercent: test.percent}, test.annotations, func(f env, _, id string) {
				began := time.Now()
				if err := f.StopContainer(f.Context(), id, test.grace); err != nil {
					f.Fatal(err)
				}
				got := f.container(id)
				if took := time.Since(began); took != test.took || got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != test.exitCode {
					f.Errorf("took %s, state %s, exit code %d; want %s and %d", took, got.State, got.ExitCode, test.took, test.exitCode)
				}
				if finished := time.Unix(0, got.FinishedAt).Sub(began); finished != test.took {
					f.Errorf("finished after %s, want %s", finished, test.took)
				}
			})
		})
	}
}

func TestAStoppingContainerRunsAndTheRuntimeAnswers(t *testing.T) {
	inBubble(t, Options{TerminationPercent: 50}, nil, func(f env, sandbox, id string) {
		stopped := make(chan error, 1)
		go func() { stopped <- f.StopContainer(f.Context(), id, 10) }()
		pass(4 * time.Second)
		if state := f.container(id).State; state != runtimeapi.ContainerState_CONTAINER_RUNNING {
			f.Errorf("state %s within the grace period", state)
		}
		f.start(sandbox, "other", podConfig("p", nil))
		pass(time.Second)
		if err := <-stopped; err != nil {
			f.Error(err)
		}
	})
}

// The kubelet cancels a call whose grace period has become shorter, and calls again.
func TestAShorterGracePeriodKills(t *testing.T) {
	inBubble(t, Options{TerminationPercent: 50}, nil, func(f env, _, id string) {
		ctx, cancel := context.WithTimeout(f.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if err := f.StopContainer(ctx, id, 60); status.Code(err) != codes.DeadlineExceeded {
			f.Errorf("a call whose context has ended: %v", err)
		}
		if state := f.container(id).State; state != runtimeapi.ContainerState_CONTAINER_RUNNING {
			f.Errorf("state %s after a call that did not wait for the end", state)
		}
		if err := f.StopContainer(f.Context(), id, 3); err != nil {
			f.Fatal(err)
		}
		if code, took := f.container(id).ExitCode, time.Since(began); code != 137 || took != 5*time.Second {
			f.Errorf("exit code %d after %s, want 137 after 5s", code, took)
		}
	})
}

// The second call has a longer grace period, but the container was told to end by the first one.
func TestATermSignalCountsOnce(t *testing.T) {
	inBubble(t, Options{TerminationPercent: 50}, nil, func(f env, _, id string) {
		began := time.Now()
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		if err := f.StopContainer(ctx, id, 10); status.Code(err) != codes.Canceled {
			f.Errorf("a call whose context has ended: %v", err)
		}
		pass(time.Second)
		if err := f.StopContainer(f.Context(), id, 100); err != nil {
			f.Fatal(err)
		}
		if code, took := f.container(id).ExitCode, time.Since(began); code != 143 || took != 5*time.Second {
			f.Errorf("exit code %d after %s, want 143 after 5s", code, took)
		}
	})
}

func TestWhatEndsAContainerEndsTheWaitForIt(t *testing.T) {
	for name, end := range map[string]func(f env, sandbox, id string) error{
		"its sandbox is stopped": func(f env, sandbox, _ string) error { return f.StopPodSandbox(f.Context(), sandbox) },
		"its sandbox is removed": func(f env, sandbox, _ string) error { return f.RemovePodSandbox(f.Context(), sandbox) },
		"it is removed":          func(f env, _, id string) error { return f.RemoveContainer(f.Context(), id) },
		"another call kills it":  func(f env, _, id string) error { return f.StopContainer(f.Context(), id, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{TerminationPercent: 50}, nil, func(f env, sandbox, id string) {
				began := time.Now()
				stopped := make(chan error, 1)
				go func() { stopped <- f.StopContainer(f.Context(), id, 60) }()
				synctest.Wait()
				if err := errors.Join(end(f, sandbox, id), <-stopped); err != nil {
					f.Error(err)
				}
				if took := time.Since(began); took != 0 {
					f.Errorf("the call waited %s for a container that had ended", took)
				}
				if response, err := f.ContainerStatus(f.Context(), id, false); err == nil && response.Status.ExitCode != 137 {
					f.Errorf("exit code %d, want 137", response.Status.ExitCode)
				}
			})
		})
	}
}

func TestAContainerThatNeverRanIsStoppedAtOnce(t *testing.T) {
	inBubble(t, Options{TerminationPercent: 100}, nil, func(f env, sandbox, _ string) {
		id, err := f.CreateContainer(f.Context(), sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "b"}, Image: &runtimeapi.ImageSpec{Image: "sha256:abc"},
		}, podConfig("p", nil))
		if err != nil {
			f.Fatal(err)
		}
		began := time.Now()
		if err := f.StopContainer(f.Context(), id, 30); err != nil || time.Since(began) != 0 {
			f.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
