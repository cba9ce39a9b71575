package script

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// eventsSettle is within which time the events of a pod come that belong to its state.
const eventsSettle = 2 * time.Second

// describePod writes down what a pod went through: its phases, conditions, containers and events.
func (s *scene) describePod(ctx context.Context, r *Record, name string) {
	if sleep(ctx, eventsSettle) != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	h := s.pods[name]
	if h == nil {
		r.fact(name+" seen", "never")
		return
	}
	var phases []string
	conditions, containers := map[string][]string{}, map[string][]string{}
	var came [][]string
	for _, one := range h.seen {
		phases = appendNew(phases, strings.TrimSpace(string(one.pod.Status.Phase)+" "+one.pod.Status.Reason))
		var group []string
		for _, c := range one.pod.Status.Conditions {
			key := string(c.Type)
			if c.Status == corev1.ConditionTrue && !slices.Contains(slices.Concat(came...), key) {
				group = append(group, key)
			}
			conditions[key] = appendNew(conditions[key], strings.TrimSpace(string(c.Status)+" "+c.Reason))
		}
		if group != nil {
			slices.Sort(group)
			came = append(came, group)
		}
		for _, status := range slices.Concat(one.pod.Status.InitContainerStatuses, one.pod.Status.ContainerStatuses) {
			containers[status.Name] = appendNew(containers[status.Name], stateText(status))
		}
	}
	r.sequence(name+" phases", phases)
	r.order(name+" conditions in order", came)
	for key, states := range conditions {
		r.sequence(name+" "+key, states)
	}
	for key, states := range containers {
		r.sequence(name+" container "+key, states)
	}
	s.describeEvents(r, name)
}

// describeEvents writes down the events of a pod in the order in which they came, each once.
func (s *scene) describeEvents(r *Record, name string) {
	var reasons, messages []string
	for _, event := range s.events {
		if event.InvolvedObject.Name != name || raceOfAuthorizer.MatchString(event.Message) {
			continue
		}
		reason := event.Type + " " + event.Reason
		if event.InvolvedObject.FieldPath != "" {
			reason += " " + event.InvolvedObject.FieldPath
		}
		message := event.Reason + ": " + s.normal(event.Message)
		if !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	r.fact(name+" events", strings.Join(reasons, ", "))
	slices.Sort(messages)
	r.fact(name+" messages of events", strings.Join(messages, "; "))
}

// raceOfAuthorizer is what a kubelet hears that asks for a pod's token before the API server knows that the pod is bound to its node.
var raceOfAuthorizer = regexp.MustCompile(`no relationship found between node`)

// normalized is what two runs never have in common.
var normalized = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b[0-9a-f]{32,64}\b`), "ID"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b`), "IP"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ns|µs|ms|s)\b`), "TIME"},
	{regexp.MustCompile(`\bkube-api-access-\w+`), "TOKEN"},
	{regexp.MustCompile(`\b(\d+ bytes|(available|quantity): \d+)\b`), "SIZE"},
	{regexp.MustCompile(`\b\d+(Ki|Mi|Gi)\b`), "SIZE"},
}

func (s *scene) normal(message string) string {
	message = strings.NewReplacer(s.side.Node, "NODE", s.side.Pressed, "NODE").Replace(message)
	for _, one := range normalized {
		message = one.pattern.ReplaceAllString(message, one.by)
	}
	return message
}

// appendNew appends what is not there as the last already.
func appendNew(all []string, one string) []string {
	if len(all) > 0 && all[len(all)-1] == one || one == "" {
		return all
	}
	return append(all, one)
}

func stateText(status corev1.ContainerStatus) string {
	switch state := status.State; {
	case state.Waiting != nil:
		return state.Waiting.Reason
	case state.Terminated != nil:
		return fmt.Sprintf("%s %d", state.Terminated.Reason, state.Terminated.ExitCode)
	case state.Running != nil && status.Ready:
		return "running and ready"
	case state.Running != nil:
		return "running"
	}
	return ""
}

// times are the moments at which a container of a pod started.
func (s *scene) starts(name string) (all []time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.pods[name] == nil {
		return nil
	}
	for _, one := range s.pods[name].seen {
		for _, status := range one.pod.Status.ContainerStatuses {
			started := time.Time{}
			if status.State.Running != nil {
				started = status.State.Running.StartedAt.Time
			} else if status.State.Terminated != nil {
				started = status.State.Terminated.StartedAt.Time
			}
			if !started.IsZero() && !slices.Contains(all, started) {
				all = append(all, started)
			}
		}
	}
	return all
}
