package script

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// scene is the namespace of a step, and all that is seen in it.
type scene struct {
	side      *Side
	namespace string

	lock sync.Mutex
	pods map[string]*history
	// events are in the order in which they came.
	events []corev1.Event
}

// history is what a pod went through.
type history struct {
	seen  []sighting
	since time.Time
	gone  time.Time
}

// sighting is a pod at a time.
type sighting struct {
	at  time.Time
	pod *corev1.Pod
}

// openScene makes a namespace and watches its pods and events until ctx ends. close removes it, and its pods at once.
func openScene(ctx context.Context, side *Side, name string) (s *scene, end func(), err error) {
	s = &scene{side: side, namespace: "fidelity-" + name, pods: map[string]*history{}}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if _, err := side.Client.CoreV1().Namespaces().Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return nil, nil, fmt.Errorf("creating namespace %s: %w", s.namespace, err)
	}
	// Until the namespace has these, pods are refused, or wait for a volume.
	err = eventually(ctx, "the default ServiceAccount and the cluster's certificates", func(ctx context.Context) (bool, error) {
		_, err := side.Client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = side.Client.CoreV1().ConfigMaps(s.namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		}
		return err == nil, err
	})
	if err != nil {
		return nil, nil, err
	}
	watching, stop := context.WithCancel(ctx)
	pods, err := side.Client.CoreV1().Pods(s.namespace).Watch(watching, metav1.ListOptions{})
	if err == nil {
		var events watch.Interface
		events, err = side.Client.CoreV1().Events(s.namespace).Watch(watching, metav1.ListOptions{})
		if err == nil {
			go s.follow(pods.ResultChan(), s.seePod)
			go s.follow(events.ResultChan(), s.seeEvent)
		}
	}
	return s, func() {
		stop()
		s.remove(context.WithoutCancel(ctx))
	}, err
}

// remove deletes the namespace. What fails here is found by no later step: each has a namespace of its own.
func (s *scene) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now := int64(0)
	_ = s.side.Client.CoreV1().Pods(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	_ = s.side.Client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
}

func (s *scene) follow(from <-chan watch.Event, see func(watch.Event)) {
	for event := range from {
		s.lock.Lock()
		see(event)
		s.lock.Unlock()
	}
}

func (s *scene) seePod(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	h := s.pods[pod.Name]
	if h == nil {
		h = &history{since: time.Now()}
		s.pods[pod.Name] = h
	}
	h.seen = append(h.seen, sighting{time.Now(), pod})
	if event.Type == watch.Deleted {
		h.gone = time.Now()
	}
}

func (s *scene) seeEvent(event watch.Event) {
	if seen, ok := event.Object.(*corev1.Event); ok && event.Type != watch.Deleted {
		s.events = append(s.events, *seen)
	}
}

// until waits until a pod is as wanted, and says how long that took since its main container started: how long a runtime takes to start one
// is not the kubelet's. Of a container that never started, the time counts from the pod's creation.
func (s *scene) until(ctx context.Context, name, what string, wanted func(*corev1.Pod) bool) (after time.Duration, err error) {
	err = eventually(ctx, "pod "+name+" to be "+what, func(context.Context) (bool, error) {
		s.lock.Lock()
		defer s.lock.Unlock()
		h := s.pods[name]
		if h == nil {
			return false, nil
		}
		for _, one := range h.seen {
			if wanted(one.pod) {
				after = max(0, one.at.Sub(cmp.Or(firstStart(one.pod), h.since)))
				return true, nil
			}
		}
		return false, nil
	})
	return after, err
}

// firstStart is when the main container of a pod started first, so far as its status says that.
func firstStart(pod *corev1.Pod) (started time.Time) {
	for _, status := range pod.Status.ContainerStatuses {
		for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
			switch {
			case state.Terminated != nil:
				started = state.Terminated.StartedAt.Time
			case state.Running != nil:
				started = state.Running.StartedAt.Time
			}
		}
	}
	return started
}

// untilGone waits until a pod is gone, and says how long that took since it was told to end.
func (s *scene) untilGone(ctx context.Context, name string) (after time.Duration, err error) {
	err = eventually(ctx, "pod "+name+" to be gone", func(context.Context) (bool, error) {
		s.lock.Lock()
		defer s.lock.Unlock()
		h := s.pods[name]
		if h == nil || h.gone.IsZero() {
			return false, nil
		}
		for _, one := range h.seen {
			if one.pod.DeletionTimestamp != nil {
				after = h.gone.Sub(one.at)
				break
			}
		}
		return true, nil
	})
	return after, err
}

// untilEvent waits for an event about a pod.
func (s *scene) untilEvent(ctx context.Context, name, reason string) error {
	return eventually(ctx, "event "+reason+" of pod "+name, func(context.Context) (bool, error) {
		s.lock.Lock()
		defer s.lock.Unlock()
		for _, event := range s.events {
			if event.InvolvedObject.Name == name && event.Reason == reason {
				return true, nil
			}
		}
		return false, nil
	})
}

// existing reads a pod that is to be there.
func (s *scene) existing(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := s.live(ctx, name)
	if err == nil && pod == nil {
		err = fmt.Errorf("pod %s is gone", name)
	}
	return pod, err
}

// live reads a pod; nil if it is gone.
func (s *scene) live(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := s.side.Client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pod, err
}
