package measurement

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// mostUnready is how many reasons a status tells, and mostUnreadyKept how many are kept; the pods beyond have the reason Other.
	mostUnready, mostUnreadyKept = 20, 200
	// mostVague is of how many pods events are looked for, mostEvents how many of a namespace are read, and mostEventNamespaces of how many.
	mostVague, mostEvents, mostEventNamespaces = 1000, 500, 10
	otherReason                                = "Other"
)

// unreadyPod is why a pod is not Ready. It is vague where only events say more.
type unreadyPod struct {
	reason, message string
	vague           bool
}

// whyUnready says why a pod is not Ready, in the words of the scheduler or the kubelet.
func whyUnready(pod *corev1.Pod) unreadyPod {
	if pod.Status.Phase == corev1.PodFailed {
		return unreadyPod{reason: cmp.Or(pod.Status.Reason, "Failed"), message: pod.Status.Message}
	}
	if pod.Spec.NodeName == "" {
		return whyUnscheduled(pod)
	}
	starting := unreadyPod{reason: "NotStarted", message: "The kubelet has not started the pod", vague: true}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch waiting, ended := status.State.Waiting, status.State.Terminated; {
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing":
			return unreadyPod{reason: waiting.Reason, message: waiting.Message}
		case waiting != nil && waiting.Reason != "":
			starting.reason, starting.message = waiting.Reason, waiting.Message
		case ended != nil && ended.ExitCode != 0:
			return unreadyPod{reason: cmp.Or(ended.Reason, "Error"), message: ended.Message}
		case status.State.Running != nil && starting.reason == "NotStarted":
			starting = unreadyPod{reason: "NotReady", message: "Its containers are running and not ready"}
		}
	}
	return starting
}

func whyUnscheduled(pod *corev1.Pod) unreadyPod {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return unreadyPod{reason: cmp.Or(c.Reason, "NotScheduled"), message: c.Message}
		}
	}
	return unreadyPod{reason: "NotScheduled", message: "The scheduler has not handled the pod"}
}

// unreadyPods counts pods that were never Ready by their reason.
type unreadyPods map[string]*unreadyCount

type unreadyCount struct {
	count   int64
	message string
	// vague are the pods of which events may say more.
	vague []types.NamespacedName
}

func (u unreadyPods) addPod(key types.NamespacedName, why unreadyPod) {
	if u[why.reason] == nil && len(u) >= mostUnreadyKept {
		why = unreadyPod{reason: otherReason}
	}
	known := u[why.reason]
	if known == nil {
		known = &unreadyCount{message: why.message}
		u[why.reason] = known
	}
	known.count++
	if why.vague && len(known.vague) < mostVague {
		known.vague = append(known.vague, key)
	}
}

// vagueReasons are the pods of which events may say more, by namespace.
func (u unreadyPods) vagueReasons() map[string]map[string]string {
	found := map[string]map[string]string{}
	for reason, known := range u {
		for _, key := range known.vague {
			if found[key.Namespace] == nil {
				found[key.Namespace] = map[string]string{}
			}
			found[key.Namespace][key.Name] = reason
		}
	}
	return found
}

// frequentReasons has the most frequent reasons first.
func (u unreadyPods) frequentReasons() []v1alpha1.LoadUnready {
	var list []v1alpha1.LoadUnready
	for reason, known := range u {
		if known.count > 0 {
			list = append(list, v1alpha1.LoadUnready{
				Reason: conditions.Shorten(reason, 64), Count: known.count, Message: conditions.Shorten(known.message, mostErrorMessage),
			})
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.LoadUnready) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return list[:min(len(list), mostUnready)]
}

// explainUnready gives a pod that had a vague reason another one.
func (t *PodTracker) explainUnready(key types.NamespacedName, vague string, why unreadyPod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.unready[vague]; known != nil && known.count > 0 && vague != why.reason {
		known.count--
		t.unready.addPod(key, why)
	}
}

// UnreadyReasons are why pods were never Ready.
func (t *PodTracker) UnreadyReasons() []v1alpha1.LoadUnready {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unready.frequentReasons()
}

// ExplainUnready looks for events of pods that were never Ready and do not say why, such as FailedMount.
func (m *Meter) ExplainUnready(ctx context.Context) error {
	m.Pods.mu.Lock()
	vague := m.Pods.unready.vagueReasons()
	m.Pods.mu.Unlock()
	looked := 0
	for namespace, pods := range vague {
		if looked++; looked > mostEventNamespaces {
			return nil
		}
		events, err := m.load.Clientset.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning, Limit: mostEvents})
		if err != nil {
			return err
		}
		for i := range events.Items {
			event := &events.Items[i]
			reason, is := pods[event.InvolvedObject.Name]
			if !is || event.InvolvedObject.Kind != "Pod" || event.Reason == "" {
				continue
			}
			delete(pods, event.InvolvedObject.Name)
			m.Pods.explainUnready(types.NamespacedName{Namespace: namespace, Name: event.InvolvedObject.Name}, reason, unreadyPod{reason: event.Reason, message: event.Message})
		}
	}
	return nil
}
