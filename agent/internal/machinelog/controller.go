// Package machinelog answers MachineLogRequests: it reads the end of the log of a Machine's node where that runs, and writes it into the
// request's status on the hub. The hub never connects to the cluster.
//
// A request is answered once. Reading changes nothing in the cluster, so requests are answered while the agent is frozen too, as long as both
// API servers answer. What is read and written is bounded: in lines, bytes, time, and requests per minute.
package machinelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

const (
	// retry is how long after a round that has failed, or left requests, the next one begins.
	retry = 5 * time.Second
	// breath is the least time between two rounds: requests may come without end.
	breath = 200 * time.Millisecond
	// longestRead bounds the reading of one log, longestRound a round.
	longestRead, longestRound = 10 * time.Second, 30 * time.Second
	// concurrency is how many logs are read at a time, perSecond and burst how many in the long run.
	concurrency      = 4
	perSecond, burst = 1, 20
	// mostListed is how many requests are looked at: the hub keeps fewer. Each may have an answer of 64 KiB.
	mostListed = 50
)

// Source reads logs of one provider's nodes: a hollow.Logs.
type Source interface {
	ReadTail(ctx context.Context, machine string, query hollow.LogQuery) (hollow.LogTail, error)
}

// Deps are what a Controller works with. All are required but Log.
type Deps struct {
	// Hub has the Machines and MachineClasses, from the cache, and the requests, whose status is written.
	Hub clients.Hub
	// Watch watches requests, or their metadata, between rounds.
	Watch poll.WatchFunc
	// Sources are by the name of the provider. One that is not here has no log.
	Sources map[string]Source
	Freeze  freeze.Checker
	poll.Runtime
}

// Controller answers requests.
type Controller struct {
	Deps
	limiter flowcontrol.PassiveRateLimiter

	mu sync.Mutex
	// version is that of the last list of requests, empty if there is none. left: not all were answered.
	version string
	left    bool
	// absent: the hub does not have the kind.
	absent bool
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if !deps.Hub.IsComplete() || deps.Watch == nil || len(deps.Sources) == 0 || deps.Freeze == nil || deps.Clock == nil {
		return nil, errors.New("requests for logs need the cluster's namespace, clients of the hub, sources of logs, the freeze state and a clock")
	}
	return &Controller{Deps: deps, limiter: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(perSecond, burst, deps.Clock)}, nil
}

// Start works until ctx ends. It implements manager.Runnable.
func (c *Controller) Start(ctx context.Context) error {
	return poll.Loop{Doing: "Answering requests for logs", Do: c.Work, Timeout: longestRound, Next: c.awaitRound, Runtime: c.Runtime}.Run(ctx)
}

// awaitRound returns how long to wait for the next round. If nothing is left to do, it first waits for a change.
func (c *Controller) awaitRound(ctx context.Context) time.Duration {
	c.mu.Lock()
	version, left, absent := c.version, c.left, c.absent
	c.mu.Unlock()
	switch {
	case absent:
		return poll.LongestSilence
	case version != "" && !left && poll.AwaitChange(ctx, c.Watch, version, poll.LongestSilence):
		return breath
	}
	return retry
}

func (c *Controller) noteRound(version string, left, absent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.left, c.absent = version, left, absent
}

// Work answers the requests that there are. One that cannot be answered stops no other one.
func (c *Controller) Work(ctx context.Context) error {
	c.noteRound("", false, false)
	if freeze.IsBystander(c.Freeze.Check()) {
		return nil
	}
	requests := &v1alpha1.MachineLogRequestList{}
	switch err := c.Hub.Live.List(ctx, requests, client.InNamespace(c.Hub.Namespace), client.Limit(mostListed)); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err): // A hub of an earlier release.
		c.noteRound("", false, true)
		return nil
	case err != nil:
		return fmt.Errorf("listing requests for logs: %w", err)
	}
	var answering errgroup.Group
	answering.SetLimit(concurrency)
	left := false
	for i := range requests.Items {
		request := &requests.Items[i]
		if !isOpen(request) {
			continue
		}
		if !c.limiter.TryAccept() {
			left = true
			continue
		}
		answering.Go(func() error { return c.answer(ctx, request) })
	}
	err := answering.Wait()
	c.noteRound(requests.ResourceVersion, left || err != nil, false)
	return err
}

// isOpen reports whether a request waits for an answer. One that cannot be decoded expires without.
func isOpen(request *v1alpha1.MachineLogRequest) bool {
	return undecodable.Check(request) == nil && request.DeletionTimestamp == nil && (request.Status.Phase == "" || request.Status.Phase == v1alpha1.MachineLogPending)
}

// answer writes the status of a request.
func (c *Controller) answer(ctx context.Context, request *v1alpha1.MachineLogRequest) error {
	answered := request.DeepCopy()
	answered.Status = c.readLog(ctx, request)
	answered.Status.AnsweredAt = &metav1.Time{Time: c.Clock.Now()}
	// Another agent, or an earlier round, may have answered in the meantime: a request is answered once.
	if err := c.Hub.Status().Patch(ctx, answered, reconciler.MergeFromWithLock(request)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("answering request for a log %s: %w", request.Name, err)
	}
	return nil
}
