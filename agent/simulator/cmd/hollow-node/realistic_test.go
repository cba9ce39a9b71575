package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// realistic returns the configuration of a node whose containers take half of their grace period.
func realistic(name string) contract.Configuration {
	fidelity := contract.Realistic()
	fidelity.TerminationPercent = 50
	fidelity.ImagePull.BytesPerSecond = 0
	configuration := configurationOf(name)
	configuration.Fidelity = &fidelity
	return configuration
}

// Claim: With `probes: Run` the kubelet's prober decides; nothing is sent. Broken: probes sent to the pod; the time of an annotation compared the wrong way round; annotations that concern sidecars. Also: agent/simulator/internal/hollownode TestKubelet, TestProbesAreKeptInTheProcess; agent/simulator/internal/fakecri TestProbesFollowTheAnnotations.
func TestProbesDecide(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), realistic("probes"), goodToken)
	p.join(t)
	t.Run("a container is ready when its readiness probe succeeds", p.readinessProbe)
	t.Run("a container is restarted when its liveness probe fails", p.livenessProbe)
}

// readinessProbe is sent to a server on this machine, which must get no request.
func (p *process) readinessProbe(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	probe := func(delay int32) *corev1.Probe {
		handler := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: address.Hostname(), Port: intstr.Parse(address.Port())}}
		return &corev1.Probe{ProbeHandler: handler, InitialDelaySeconds: delay, PeriodSeconds: 1, FailureThreshold: 30}
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		change      func(*corev1.Container)
	}{
		"delayed":  {nil, func(c *corev1.Container) { c.ReadinessProbe = probe(3) }},
		"scripted": {map[string]string{"hollowfleet.io/ready-after": "3s"}, func(c *corev1.Container) { c.ReadinessProbe = probe(0) }},
		"starting": {map[string]string{"hollowfleet.io/started-after": "3s"}, func(c *corev1.Container) { c.StartupProbe = probe(0) }},
	} {
		p.submit(t, p.pod(name, func(pod *corev1.Pod) {
			pod.Annotations = test.annotations
			test.change(&pod.Spec.Containers[0])
		}))
	}
	for _, name := range []string{"delayed", "scripted", "starting"} {
		p.await(t, p.name+"-"+name, func(pod *corev1.Pod) error {
			if ready := isReady(pod); ready != nil {
				return ready
			}
			if took := readyAfter(pod); took < 3*time.Second {
				t.Errorf("%s: ready %s after it was started", name, took)
			}
			return nil
		})
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("probes sent %d requests out of the process", n)
	}
}

// readyAfter is how long after the start of its container a pod became ready, both rounded down to seconds.
func readyAfter(pod *corev1.Pod) time.Duration {
	for _, condition := range pod.Status.Conditions {
		if running := pod.Status.ContainerStatuses[0].State.Running; condition.Type == corev1.PodReady && running != nil {
			return condition.LastTransitionTime.Sub(running.StartedAt.Time)
		}
	}
	return 0
}

func (p *process) livenessProbe(t *testing.T) {
	t.Parallel()
	failing := p.pod("failing", func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"hollowfleet.io/liveness-fails-after": "2s"}
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](2)
		probe := &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1}
		probe.TCPSocket = &corev1.TCPSocketAction{Port: intstr.FromInt(80)}
		pod.Spec.Containers[0].LivenessProbe = probe
	})
	p.create(t, failing, func(pod *corev1.Pod) error {
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount == 0 {
			return errors.New("not restarted")
		}
		last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.ExitCode != 143 || last.FinishedAt.Sub(last.StartedAt.Time) < 2*time.Second {
			t.Errorf("the container ended as %+v", last)
		}
		return nil
	})
	p.expectEvents(t, failing.Name, map[string]string{
		"Unhealthy": "Liveness probe failed: scripted by annotation hollowfleet.io/liveness-fails-after", "Killing": "failed liveness probe, will be restarted",
	})
}

// Claim: Containers take their part of the grace period. Broken: no part of the grace period passed on; the exit code of SIGTERM for a kill; each call a signal of its own; no waiting for the end of ctx or of the container. Also: agent/simulator/internal/fakecri TestContainersTakeTheirPartOfTheGracePeriod, TestAStoppingContainerRunsAndTheRuntimeAnswers, TestAShorterGracePeriodKills, TestATermSignalCountsOnce, TestWhatEndsAContainerEndsTheWaitForIt.
func TestContainersTakeTheirTimeToEnd(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), realistic("terminations"), goodToken)
	p.join(t)
	grace := func(seconds int64, annotations map[string]string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Annotations = annotations
			pod.Spec.TerminationGracePeriodSeconds = &seconds
		}
	}
	stubborn := map[string]string{"hollowfleet.io/terminates-after": "1m"}
	deleted := p.create(t, p.pod("deleted", grace(10, nil)), isReady)
	evicted := p.create(t, p.pod("evicted", grace(3, stubborn)), isReady)
	forced := p.create(t, p.pod("forced", grace(60, stubborn)), isReady)
	pods := p.client.CoreV1().Pods("default")

	t.Run("half of the grace period", func(t *testing.T) {
		t.Parallel()
		p.expectTermination(t, deleted, 5*time.Second, 143, func(ctx context.Context) error {
			return pods.Delete(ctx, deleted.Name, metav1.DeleteOptions{})
		})
	})
	t.Run("all of it, in an eviction", func(t *testing.T) {
		t.Parallel()
		p.expectTermination(t, evicted, 3*time.Second, 137, func(ctx context.Context) error {
			return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: evicted.Name, Namespace: evicted.Namespace}})
		})
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if err := pods.Delete(t.Context(), forced.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(t.Context(), forced.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a pod without grace period is still there: %v", err)
		}
	})
}

// expectTermination lets a pod end and watches it: it is terminating with a container that runs until it has taken its time.
func (p *process) expectTermination(t *testing.T, pod *corev1.Pod, took time.Duration, exitCode int32, end func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Without a resource version it starts with the pod as it is now. A version from earlier may be too old for the API server.
	watcher, err := p.client.CoreV1().Pods(pod.Namespace).Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: pod.Name}))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	began := time.Now()
	if err := end(ctx); err != nil {
		t.Fatal(err)
	}
	terminating, ended := false, (*corev1.ContainerStateTerminated)(nil)
	for event := range watcher.ResultChan() {
		seen, ok := event.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("the watch ended: %v", event.Object)
		}
		state := seen.Status.ContainerStatuses[0].State
		terminating = terminating || seen.DeletionTimestamp != nil && state.Running != nil
		if ended == nil && state.Terminated != nil {
			ended = state.Terminated
			if waited := time.Since(began); waited < took {
				t.Errorf("the container ended within %s, want %s", waited, took)
			}
		}
		if event.Type == "DELETED" {
			break
		}
	}
	if !terminating || ended == nil || ended.ExitCode != exitCode {
		t.Errorf("seen terminating: %t; the container ended as %+v, want exit code %d", terminating, ended, exitCode)
	}
	if waited := time.Since(began); waited < took {
		t.Errorf("the pod was gone within %s, want %s", waited, took)
	}
}

// submit makes the pod without waiting for it.
func (p *process) submit(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if _, err := p.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// await waits until the check accepts a pod.
func (p *process) await(t *testing.T, name string, check func(*corev1.Pod) error) {
	t.Helper()
	eventually(t, "pod "+name, time.Minute, func(ctx context.Context) error {
		pod, err := p.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(pod)
	})
}

// expectEvents waits until the pod has events with these reasons and parts of their messages.
func (p *process) expectEvents(t *testing.T, pod string, want map[string]string) {
	t.Helper()
	selector := fields.OneTermEqualSelector("involvedObject.name", pod).String()
	eventually(t, "events of "+pod, time.Minute, func(ctx context.Context) error {
		list, err := p.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return err
		}
		missing := map[string]string{}
		for reason, message := range want {
			missing[reason] = message
			for _, event := range list.Items {
				if event.Reason == reason && strings.Contains(event.Message, message) {
					delete(missing, reason)
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("no events %v", missing)
		}
		return nil
	})
}
