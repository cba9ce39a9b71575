package cmdutil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// UnknownVersion is the version of a hub that does not tell it.
const UnknownVersion = "unknown"

// HubState is what the Lease of the hub says of it.
type HubState struct {
	Version, Holder string
	// Renewed is how long ago the Lease was renewed.
	Renewed time.Duration
	// Problem says why the hub does not work; empty if it does.
	Problem string
	// Gone: it has not worked for longer than a restart or an upgrade takes.
	Gone bool
}

// longestRestart is how long a hub may be away before a command without a time of its own waits no more.
const longestRestart = 2 * time.Minute

// ReadHubState reads the Lease that the working hub renews.
func ReadHubState(ctx context.Context, c client.Reader, now time.Time) (HubState, error) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.HubNamespace, Name: v1alpha1.HubLeaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return HubState{}, fmt.Errorf("reading the Lease of the hub: %w", err)
	}
	if apierrors.IsNotFound(err) {
		return HubState{Version: UnknownVersion, Problem: "no hub has ever run here: start one", Gone: true}, nil
	}
	return StateOfLease(lease, now), nil
}

// StateOfLease allows for twice the duration of the Lease: the clocks of hub and user may differ.
func StateOfLease(lease *coordinationv1.Lease, now time.Time) HubState {
	state := HubState{Holder: ptr.Deref(lease.Spec.HolderIdentity, ""), Version: UnknownVersion}
	if version := lease.Labels[v1alpha1.VersionLabel]; version != "" {
		state.Version = strings.ReplaceAll(version, "_", "+")
	}
	if renewed := lease.Spec.RenewTime; state.Holder == "" || renewed == nil {
		state.Problem = "no hub is running: the last one has stopped: start one"
		state.Gone = renewed == nil || now.Sub(renewed.Time) > longestRestart
		return state
	}
	age, grace := now.Sub(lease.Spec.RenewTime.Time), 2*time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15))*time.Second
	state.Renewed = max(age, 0)
	switch {
	case age > grace:
		state.Problem = fmt.Sprintf("the hub %s has not renewed its Lease for %s: it has stopped, hangs, or cannot reach its API server", state.Holder, age.Round(time.Second))
		state.Gone = age > longestRestart
	case age < -grace: // A hub that has stopped would seem to work for so long.
		state.Problem = fmt.Sprintf("whether the hub %s works is unknown: it renewed its Lease %s in the future: set the clock of this machine or of the hub's", state.Holder, (-age).Round(time.Second))
	}
	return state
}

// hubGlance is how often a command that waits looks whether the hub still works.
const hubGlance = 10 * time.Second

// DescribeStoppedHub says that the hub does not work, for a command that has waited for it in vain. It is otherwise if the hub works, or if
// that cannot be read.
func DescribeStoppedHub(ctx context.Context, c client.Reader, otherwise string) string {
	if problem := readStoppedHub(ctx, c).describe(); problem != "" {
		return problem
	}
	return otherwise
}

// readStoppedHub reads the state of the hub. What cannot be read counts as a hub that works.
func readStoppedHub(ctx context.Context, c client.Reader) HubState {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), completionTimeout)
	defer cancel()
	state, err := ReadHubState(asking, c, time.Now())
	if err != nil {
		return HubState{}
	}
	return state
}

func (s HubState) describe() string {
	if s.Problem == "" {
		return ""
	}
	return "the hub does not work: " + s.Problem
}

// ProveHub is an error with the exit code of a failure if the hub does not work: said, which its objects say, is then what it knew last, and
// nobody has looked since. A user who may not read the Lease of the hub is told that this is not known.
func (h *Hub) ProveHub(ctx context.Context, c client.Reader, said string) error {
	asking, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	state, err := ReadHubState(asking, c, time.Now())
	switch {
	case apierrors.IsForbidden(err):
		h.Note("Whether the hub works was not checked, because you may not read its Lease. If it does not work, this is the last known state.")
		return nil
	case err != nil:
		return fmt.Errorf("%s according to the hub, and whether the hub works is unknown: %w", said, err)
	case state.Problem != "":
		return fmt.Errorf("%s when the hub last checked, but the hub does not work: %s", said, state.Problem)
	}
	return nil
}

// NoteOldTable notes that the hub does not work, so that what a list shows is what it knew last.
func (h *Hub) NoteOldTable(ctx context.Context, c client.Reader) {
	if problem := DescribeStoppedHub(ctx, c, ""); problem != "" {
		h.Note("This is the last known state: %s", problem)
	}
}

// NoteStoppedHub notes at once, and whenever that changes until ctx ends, that the hub does not work: what a command waits for does not
// happen then. The caller calls the function that it returns when it waits no more.
func (h *Hub) NoteStoppedHub(ctx context.Context, c client.Reader) (stop func()) {
	return h.followHub(ctx, c, func(error) {})
}

// BoundWait bounds the waiting of a command by its --timeout, and notes when the hub does not work. Without a timeout the context ends after
// longest, or forever if that is 0, and when the hub is gone: GoneHub says so then. The caller calls the function that it returns when it
// waits no more.
func (h *Hub) BoundWait(ctx context.Context, c client.Reader, timeout, longest time.Duration) (bounded context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	bounded, cancel := ctx, func() {}
	if limit := cmp.Or(timeout, longest); limit > 0 {
		bounded, cancel = context.WithTimeout(ctx, limit)
	}
	gone := end
	if timeout > 0 {
		gone = func(error) {}
	}
	stopFollowing := h.followHub(bounded, c, gone)
	return bounded, func() {
		stopFollowing()
		cancel()
		end(nil)
	}
}

// goneHubError ends the waiting of a command.
type goneHubError struct{ problem string }

func (e *goneHubError) Error() string {
	return "stopped waiting, because nobody does what this command waits for: " + e.problem
}

// NewGoneHub is the error that ends the waiting of a command for a hub that is gone.
func NewGoneHub(state HubState) error { return &goneHubError{state.describe()} }

// GoneHub is the error, with the exit code of a failure, that a context of BoundWait, or one made of it, ended with; nil if it has not
// ended for that.
func GoneHub(ctx context.Context) error {
	var gone *goneHubError
	if errors.As(context.Cause(ctx), &gone) {
		return gone
	}
	return nil
}

// followHub notes how the hub is, and calls end when it is gone.
func (h *Hub) followHub(ctx context.Context, c client.Reader, end func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		stopped := false
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			state := readStoppedHub(ctx, c)
			problem := state.describe()
			switch {
			case ctx.Err() != nil:
			case problem != "" && !stopped:
				h.Note("Nothing happens for now: %s", problem)
			case problem == "" && stopped:
				h.Note("The hub works again.")
			}
			if stopped = problem != ""; state.Gone {
				end(&goneHubError{problem})
			}
		}, hubGlance)
	})
	return func() {
		cancel()
		done.Wait()
	}
}
