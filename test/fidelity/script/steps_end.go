package script

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// numbers are of the capacity of a node and what runs there.
var numbers = regexp.MustCompile(`\b\d+\b`)

func endSteps() []*Step {
	return []*Step{
		{Name: "terminates", Row: rowEnd, Verdict: Adjustable, Run: inScene("terminates", runTerminates)},
		{Name: "killed", Row: rowEnd, Verdict: Adjustable, Run: inScene("killed", runKilled)},
		{Name: "exits", Row: rowExit, Verdict: Adjustable, Run: inScene("exits", runExits)},
		{Name: "crashes", Row: rowExit, Verdict: Adjustable, Run: inScene("crashes", runCrashes), Tolerances: map[string]Tolerance{
			"second start after": {Absolute: 3 * time.Second},
			"third start after":  {Absolute: 5 * time.Second},
			"fourth start after": {Absolute: 6 * time.Second},
		}, Repeats: []string{"crashes container main", "crashes Ready", "crashes ContainersReady"}},
		{Name: "oom", Row: rowOOM, Verdict: Adjustable, Run: inScene("oom", runOOM), Tolerances: map[string]Tolerance{
			// The kernel takes its time until it kills.
			"greedy over": {Absolute: 8 * time.Second},
		}, Declared: []Declared{{
			Figure: "greedy container main", NotOfNode: true, Sometimes: true,
			Because: "containerd says Error where it cannot read the container's cgroup, as in a node of kind with cgroup v1",
		}}},
	}
}

// lastState is the state in which a pod's container was seen last.
func (s *scene) lastState(name string) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	h := s.pods[name]
	if h == nil || len(h.seen) == 0 {
		return ""
	}
	statuses := h.seen[len(h.seen)-1].pod.Status.ContainerStatuses
	if len(statuses) == 0 {
		return ""
	}
	return stateText(statuses[0])
}

// runTerminates is a container that takes 3 seconds to end after SIGTERM.
func runTerminates(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("tidy", behaviour{"terminates-after": "3s"}, grace(10))
	if err := s.play(ctx, r, pod, "Ready", isReady); err != nil {
		return err
	}
	if err := s.end(ctx, r, "tidy"); err != nil {
		return err
	}
	r.fact("last state", s.lastState("tidy"))
	s.describePod(ctx, r, "tidy")
	return nil
}

// runKilled is a container that takes longer to end than its grace period.
func runKilled(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("stubborn", behaviour{"terminates-after": "60s"}, grace(4))
	if err := s.play(ctx, r, pod, "Ready", isReady); err != nil {
		return err
	}
	if err := s.end(ctx, r, "stubborn"); err != nil {
		return err
	}
	r.fact("last state", s.lastState("stubborn"))
	s.describePod(ctx, r, "stubborn")
	return nil
}

// runExits are containers that end by themselves and stay so.
func runExits(ctx context.Context, s *scene, r *Record) error {
	for name, b := range map[string]behaviour{
		"succeeds": {"exit-after": "2s"},
		"fails":    {"exit-after": "2s", "exit-code": "3"},
	} {
		if err := s.play(ctx, r, s.side.newPod(name, b, onlyOnce), "over", isOver); err != nil {
			return err
		}
		s.describePod(ctx, r, name)
	}
	return nil
}

// runCrashes is a container that is started again and again: the kubelet waits longer each time.
func runCrashes(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("crashes", behaviour{"exit-after": "1s", "exit-code": "1"})
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	if _, err := s.until(ctx, "crashes", "started the fourth time", func(pod *corev1.Pod) bool { return restarts(pod) == 3 }); err != nil {
		return err
	}
	if err := s.untilEvent(ctx, "crashes", "BackOff"); err != nil {
		return err
	}
	starts := s.starts("crashes")
	if len(starts) < 3 {
		return fmt.Errorf("only %d starts were seen", len(starts))
	}
	for i, which := range []string{"second", "third", "fourth"} {
		if i+1 < len(starts) {
			r.took(which+" start after", starts[i+1].Sub(starts[i]))
		}
	}
	s.describePod(ctx, r, "crashes")
	return nil
}

// runOOM is a container that takes more memory than its limit.
func runOOM(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("greedy", behaviour{"memory-usage": "96Mi"}, onlyOnce, memoryLimit)
	if err := s.play(ctx, r, pod, "over", isOver); err != nil {
		return err
	}
	r.fact("killed by the kernel", fmt.Sprint(strings.HasSuffix(s.lastState("greedy"), " 137")))
	s.describePod(ctx, r, "greedy")
	return nil
}
