package machinelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/redact"
)

const (
	// mostAnswered bounds the log in a status, in bytes. The schema bounds it in characters.
	mostAnswered = 64 << 10
	// mostRead is how much of the end of a log is looked at: what is taken out of it may be long.
	mostRead = 4 * mostAnswered
	// mostMessage bounds a message, which may repeat what an API server says.
	mostMessage = 1024
)

// failure is why a request cannot be answered.
func failure(reason, format string, args ...any) v1alpha1.MachineLogRequestStatus {
	message := strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")
	return v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogFailed, Reason: reason, Message: redact.Text(cutEnd(message, mostMessage/2))}
}

// readLog reads what a request asks for.
func (c *Controller) readLog(ctx context.Context, request *v1alpha1.MachineLogRequest) v1alpha1.MachineLogRequestStatus {
	machine := &v1alpha1.Machine{}
	err := c.Hub.Get(ctx, client.ObjectKey{Namespace: c.Hub.Namespace, Name: request.Spec.MachineName}, machine)
	switch {
	case apierrors.IsNotFound(err):
		return failure(v1alpha1.LogReasonMachineNotFound, "Machine %s does not exist", request.Spec.MachineName)
	case err != nil:
		return failure(v1alpha1.LogReasonUnavailable, "reading Machine %s failed: %v", request.Spec.MachineName, err)
	case request.Spec.MachineUID != "" && request.Spec.MachineUID != machine.UID:
		return failure(v1alpha1.LogReasonMachineNotFound, "Machine %s is another one than that of UID %s", machine.Name, request.Spec.MachineUID)
	}
	provider, err := c.providerOf(ctx, machine)
	if err != nil {
		return failure(v1alpha1.LogReasonUnavailable, "finding the provider of Machine %s failed: %v", machine.Name, err)
	}
	source, has := c.Sources[provider]
	if !has {
		return failure(v1alpha1.LogReasonNoLog, "Machine %s is of provider %s, which has no log that the agent could read", machine.Name, provider)
	}
	bounded, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	tail, err := source.ReadTail(bounded, machine.Name, hollow.LogQuery{
		Lines: int64(request.Spec.TailLines), Bytes: mostRead, SinceSeconds: int64(request.Spec.SinceSeconds), Previous: request.Spec.Previous,
	})
	if err != nil {
		return explainFailure(machine.Name, request.Spec.Previous, err)
	}
	text, cut := prepareText(tail.Text, tail.Truncated)
	return v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogAnswered, Log: text, Truncated: cut, Pod: tail.Pod}
}

// providerOf is the provider of a Machine, by its class or its own configuration.
func (c *Controller) providerOf(ctx context.Context, machine *v1alpha1.Machine) (string, error) {
	config := machine.Spec.ProviderConfig
	if config.ValueRef == nil {
		if config.Provider == "" {
			return v1alpha1.ProviderHollow, nil
		}
		return config.Provider, nil
	}
	class := &v1alpha1.MachineClass{}
	err := c.Hub.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: config.ValueRef.Name}, class)
	if apierrors.IsNotFound(err) { // The pod may be there all the same, and only that of provider hollow.
		return v1alpha1.ProviderHollow, nil
	}
	return class.Spec.Provider, err
}

// explainFailure says why a log could not be read, and what helps.
func explainFailure(machine string, previous bool, err error) v1alpha1.MachineLogRequestStatus {
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return failure(v1alpha1.LogReasonPodNotFound, "Machine %s has no pod", machine)
	case apierrors.IsForbidden(err):
		return failure(v1alpha1.LogReasonForbidden, "the agent may not read logs there: give it the right get on pods/log with config/rbac/agent-workload, or with its chart: %v", err)
	case previous && (apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)):
		return failure(v1alpha1.LogReasonPodNotFound, "the pod of Machine %s has no earlier run: %v", machine, err)
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
		return failure(v1alpha1.LogReasonPodNotFound, "the pod of Machine %s has no log yet: %v", machine, err)
	case errors.Is(err, context.DeadlineExceeded):
		return failure(v1alpha1.LogReasonUnavailable, "the API server of the cluster, or the kubelet of the pod, has not answered within %s", longestRead)
	}
	return failure(v1alpha1.LogReasonUnavailable, "reading the log failed: %v", err)
}

// prepareText makes the end of a log fit for a status: without credentials, in valid UTF-8, from the beginning of a line on, within its limit.
// truncated: the first line has no beginning, so that a credential in it would not be found.
func prepareText(text string, truncated bool) (prepared string, cut bool) {
	if _, rest, found := strings.Cut(text, "\n"); truncated && found {
		text = rest
	}
	text = redact.Text(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD"))
	if len(text) <= mostAnswered {
		return text, truncated
	}
	text = text[len(text)-mostAnswered:]
	if _, rest, found := strings.Cut(text, "\n"); found && rest != "" {
		return rest, true
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text, true
}

// cutEnd is the beginning of text that has at most so many bytes.
func cutEnd(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for len(text) > 0 && !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}
