package script

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// missingImage is in a registry that refuses connections.
const missingImage = "127.0.0.1:1/missing:v1"

func imageSteps() []*Step {
	return []*Step{
		{Name: "present", Row: rowPulls, Verdict: Adjustable, Run: inScene("present", runPresent)},
		{
			Name: "missing", Row: rowPulls, Verdict: Adjustable, Run: inScene("missing", runMissing),
			Declared: []Declared{{Figure: "missing messages of events", Because: "a hollow node says why: an annotation"}},
			Tolerances: map[string]Tolerance{
				"second try after": {Absolute: 4 * time.Second},
				"third try after":  {Absolute: 6 * time.Second},
			},
			Repeats: []string{"missing container main"},
		},
	}
}

// runPresent are the policies for an image that is there, and for one that is not and must not be pulled.
func runPresent(ctx context.Context, s *scene, r *Record) error {
	never := s.side.newPod("never", nil, func(pod *corev1.Pod) {
		main(pod).Image, main(pod).ImagePullPolicy = "hollowfleet.io/not-there:v1", corev1.PullNever
	})
	if err := s.create(ctx, never); err != nil {
		return err
	}
	if err := s.untilEvent(ctx, "never", "ErrImageNeverPull"); err != nil {
		return err
	}
	if err := s.play(ctx, r, s.side.newPod("present", nil), "Ready", isReady); err != nil {
		return err
	}
	s.describePod(ctx, r, "present")
	s.describePod(ctx, r, "never")
	return nil
}

// runMissing is an image that cannot be pulled: the kubelet waits longer each time.
func runMissing(ctx context.Context, s *scene, r *Record) error {
	pod := s.side.newPod("missing", behaviour{"image-pull-fails": "true"}, func(pod *corev1.Pod) { main(pod).Image = missingImage })
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	var tries []time.Time
	err := eventually(ctx, "three tries to pull the image", func(context.Context) (bool, error) {
		tries = s.timesOf("missing", "Pulling")
		return len(tries) >= 3, nil
	})
	if err != nil {
		return err
	}
	r.took("second try after", tries[1].Sub(tries[0]))
	r.took("third try after", tries[2].Sub(tries[1]))
	if err := s.untilEvent(ctx, "missing", "BackOff"); err != nil {
		return err
	}
	s.describePod(ctx, r, "missing")
	return nil
}

// timesOf are the times of an event of a pod, which comes again and again.
func (s *scene) timesOf(name, reason string) (all []time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, event := range s.events {
		if event.InvolvedObject.Name != name || event.Reason != reason {
			continue
		}
		if at := event.LastTimestamp.Time; len(all) == 0 || all[len(all)-1].Before(at) {
			all = append(all, at)
		}
	}
	return all
}
