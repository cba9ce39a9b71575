package freeze

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Checker says whether something may be changed now.
type Checker interface {
	// Check returns nil, or *Error while frozen.
	Check() error
}

// OnThaw calls wake each time that changes receives and nothing is frozen, until ctx ends. The changes are those that the
// caller has subscribed to for itself.
func OnThaw(ctx context.Context, checker Checker, changes <-chan struct{}, wake func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			if checker.Check() == nil {
				wake(ctx)
			}
		}
	}
}

// Gate refuses changes while the agent is frozen. It wraps the transports of the agent's clients, so that it is asked for
// each attempt that is sent, also for one that client-go repeats by itself, and the drivers, which may have clients of their
// own. What it wraps must not be used without it.
type Gate struct {
	checker Checker
	metrics *Metrics
}

// What a Gate refuses besides requests, in its metrics.
const (
	driverCreate = "DriverCreate"
	driverUpdate = "DriverUpdate"
	driverDelete = "DriverDelete"

	clusterDriverEnsure = "ClusterDriverEnsure"
	clusterDriverRemove = "ClusterDriverRemove"
)

// gatedMethods are all that a Gate refuses.
var gatedMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, driverCreate, driverUpdate, driverDelete, clusterDriverEnsure, clusterDriverRemove}

// NewGate returns a Gate that checker opens and closes.
func NewGate(checker Checker, metrics *Metrics) *Gate {
	return &Gate{checker: checker, metrics: metrics}
}

// checkPassage returns nil when method may continue.
func (g *Gate) checkPassage(ctx context.Context, method string) error {
	err := g.checker.Check()
	if err == nil {
		err = checkOutdated(ctx)
	}
	if err != nil {
		g.metrics.refused.WithLabelValues(method).Inc()
	}
	return err
}

// Driver lets Get and List through and refuses every change while frozen.
func (g *Gate) Driver(inner driver.Driver) driver.Driver { return &gatedDriver{inner: inner, gate: g} }

type gatedDriver struct {
	inner driver.Driver
	gate  *Gate
}

func (d *gatedDriver) Create(ctx context.Context, request driver.Request) (driver.Instance, error) {
	if err := d.gate.checkPassage(ctx, driverCreate); err != nil {
		return driver.Instance{}, err
	}
	return d.inner.Create(ctx, request)
}

func (d *gatedDriver) Update(ctx context.Context, request driver.Request) (driver.Instance, error) {
	if err := d.gate.checkPassage(ctx, driverUpdate); err != nil {
		return driver.Instance{}, err
	}
	return d.inner.Update(ctx, request)
}

func (d *gatedDriver) CheckUpdate(ctx context.Context, request driver.Request) error {
	return d.inner.CheckUpdate(ctx, request)
}

func (d *gatedDriver) Get(ctx context.Context, request driver.Request) (driver.Instance, error) {
	return d.inner.Get(ctx, request)
}

func (d *gatedDriver) Delete(ctx context.Context, machine *v1alpha1.Machine) error {
	if err := d.gate.checkPassage(ctx, driverDelete); err != nil {
		return err
	}
	return d.inner.Delete(ctx, machine)
}

func (d *gatedDriver) List(ctx context.Context) ([]driver.Instance, error) { return d.inner.List(ctx) }

// TakesKubeletConfiguration implements driver.Configurable.
func (d *gatedDriver) TakesKubeletConfiguration() bool {
	return driver.TakesKubeletConfiguration(d.inner)
}

// Count implements driver.Counter.
func (d *gatedDriver) Count(ctx context.Context) (int, error) { return driver.Count(ctx, d.inner) }

// ClusterDriver lets List through and refuses every change while frozen.
func (g *Gate) ClusterDriver(inner clusterdriver.Driver) clusterdriver.Driver {
	return &gatedClusterDriver{inner: inner, gate: g}
}

type gatedClusterDriver struct {
	inner clusterdriver.Driver
	gate  *Gate
}

func (d *gatedClusterDriver) Ensure(ctx context.Context, desired clusterdriver.Desired) error {
	if err := d.gate.checkPassage(ctx, clusterDriverEnsure); err != nil {
		return err
	}
	return d.inner.Ensure(ctx, desired)
}

func (d *gatedClusterDriver) Remove(ctx context.Context, name, uid string) (gone bool, err error) {
	if err := d.gate.checkPassage(ctx, clusterDriverRemove); err != nil {
		return false, err
	}
	return d.inner.Remove(ctx, name, uid)
}

func (d *gatedClusterDriver) List(ctx context.Context) (clusterdriver.Inventory, error) {
	return d.inner.List(ctx)
}

// reports are the changes on the hub that continue while the agent is frozen: the status of Machines, NodeDisruptionRuns,
// LoadTestRuns, SimulatedClusters and MachineLogRequests, and events. The pattern names the whole path of the resource, so that no object can be named in a way that lets its own
// changes through. A hub may be served below a path of its own.
var reports = regexp.MustCompile(`(^|/)apis/(` +
	`hollowfleet\.io/[^/]+/namespaces/[^/]+/(machines|nodedisruptionruns|loadtestruns|simulatedclusters|machinelogrequests)/[^/]+/status` +
	`|events\.k8s\.io/[^/]+/namespaces/[^/]+/events(/[^/]+)?` +
	`)$`)

// RoundTripper lets requests through that only read, and refuses all others while frozen.
func (g *Gate) RoundTripper(inner http.RoundTripper) http.RoundTripper {
	return gatedTransport{inner: inner, gate: g, passes: isRead}
}

// HubRoundTripper is RoundTripper for clients of the hub: the status of Machines, and events, are written while frozen too.
func (g *Gate) HubRoundTripper(inner http.RoundTripper) http.RoundTripper {
	return gatedTransport{inner: inner, gate: g, passes: func(request *http.Request) bool {
		return isRead(request) || isWrite(request) && reports.MatchString(request.URL.Path)
	}}
}

func isRead(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return triesEviction(request)
}

var evictions = regexp.MustCompile(`^/api/v1/namespaces/[^/]+/pods/[^/]+/eviction$`)

// triesEviction reports whether a request asks whether a pod could be evicted, and evicts none: the API server refuses a dry run
// whose body says otherwise.
func triesEviction(request *http.Request) bool {
	return request.Method == http.MethodPost && evictions.MatchString(request.URL.Path) &&
		slices.Equal(request.URL.Query()["dryRun"], []string{metav1.DryRunAll})
}

// isWrite reports whether a request creates or changes an object, and does not delete one.
func isWrite(request *http.Request) bool {
	switch request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	}
	return false
}

type gatedTransport struct {
	inner http.RoundTripper
	gate  *Gate
	// passes reports whether a request is sent while frozen too.
	passes func(*http.Request) bool
}

// RoundTrip implements http.RoundTripper.
func (t gatedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.passes(request) {
		return t.inner.RoundTrip(request)
	}
	if err := t.gate.checkPassage(request.Context(), request.Method); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	// Without a way to get the body again, net/http does not repeat the request either once it was sent.
	once := request.WithContext(request.Context())
	once.GetBody = nil
	return t.inner.RoundTrip(once)
}

// WrappedRoundTripper lets client-go find the connections below.
func (t gatedTransport) WrappedRoundTripper() http.RoundTripper { return t.inner }

type decidingKey struct{}

// Deciding returns a context for one decision and what follows from it. Once the agent has thawed after that, the
// Gate refuses every change with it: what was seen before a freeze is no ground to act on after it, however well
// things are by then. After the thaw the object is reconciled again.
func (m *Monitor) Deciding(ctx context.Context) context.Context {
	begun, _ := m.Thaw()
	return context.WithValue(ctx, decidingKey{}, func() error {
		thaw, at := m.Thaw()
		if thaw == begun {
			return nil
		}
		return &Error{Reason: "Outdated", Message: "this was decided before the last freeze ended, and must be decided again", Since: at}
	})
}

// checkOutdated returns *Error if what was decided with ctx is from before the last thaw.
func checkOutdated(ctx context.Context) error {
	if check, ok := ctx.Value(decidingKey{}).(func() error); ok {
		return check()
	}
	return nil
}

// Error refuses a change because the agent is frozen. It is no failure: the caller waits for the thaw.
type Error struct {
	// Reason and Message say why the agent is frozen; Since is from when on.
	Reason, Message string
	Since           time.Time
}

// IsBystander reports whether an agent is frozen because another one works for its cluster, by the error of Check. What there is to
// report, the other one reports: two writers of one status would undo each other's without end.
func IsBystander(err error) bool {
	var frozen *Error
	return errors.As(err, &frozen) && (frozen.Reason == v1alpha1.ReasonAnotherAgent || frozen.Reason == v1alpha1.ReasonLeaseNotHeld)
}

func (e *Error) Error() string {
	return fmt.Sprintf("frozen since %s: %s: %s", e.Since.UTC().Format(time.RFC3339), e.Reason, e.Message)
}
