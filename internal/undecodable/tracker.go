package undecodable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// mostNamed is how many objects a health check or a condition names.
const mostNamed = 10

// Tracker knows all objects in a cache that could not be decoded. It tells each in an event, their number in a metric, and
// their names to health checks and to who asks for those of a namespace.
type Tracker struct {
	log      logr.Logger
	recorder events.EventRecorder
	gauge    *prometheus.GaugeVec

	mu    sync.Mutex
	found map[Error]bool
	wake  []func(namespace string)
}

// NewTracker returns a Tracker that has found nothing, and registers its metric, named for the process that it is of.
func NewTracker(name string, registerer prometheus.Registerer) *Tracker {
	t := &Tracker{
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: name,
			Help: "Objects that exist and cannot be decoded, and so are left alone, by kind.",
		}, []string{"kind"}),
		found: map[Error]bool{},
	}
	if err := registerer.Register(t.gauge); err != nil {
		var registered prometheus.AlreadyRegisteredError
		if errors.As(err, &registered) {
			if gauge, same := registered.ExistingCollector.(*prometheus.GaugeVec); same {
				t.gauge = gauge
			}
		}
	}
	return t
}

// Notify has wake called with the namespace of each object that stops, or starts, to be decodable. It is for before Run.
func (t *Tracker) Notify(wake func(namespace string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wake = append(t.wake, wake)
}

// Run follows the objects of these kinds in informers until ctx ends; then it has found nothing any more.
func (t *Tracker) Run(ctx context.Context, informers cache.Informers, log logr.Logger, recorder events.EventRecorder, kinds ...client.Object) error {
	t.log, t.recorder = log, recorder
	defer t.resetMetric()
	for _, kind := range kinds {
		t.gauge.WithLabelValues(reflect.TypeOf(kind).Elem().Name())
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("following %T: %w", kind, err)
		}
		handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { t.recordChange(nil, object) },
			UpdateFunc: func(before, after any) { t.recordChange(before, after) },
			DeleteFunc: func(object any) { t.recordChange(object, nil) },
		})
		if err != nil {
			return fmt.Errorf("following %T: %w", kind, err)
		}
		defer func() { _ = informer.RemoveEventHandler(handler) }()
	}
	<-ctx.Done()
	return nil
}

// recordChange takes in a change; an object that is not there before or after is nil.
func (t *Tracker) recordChange(before, after any) {
	if unknown, last := before.(toolscache.DeletedFinalStateUnknown); last {
		before = unknown.Obj
	}
	was, is := problemOf(before), problemOf(after)
	switch {
	case was == nil && is == nil, was != nil && is != nil && *was == *is:
		return
	}
	t.mu.Lock()
	if was != nil {
		delete(t.found, *was)
	}
	if is != nil {
		t.found[*is] = true
	}
	t.countKinds(was, is)
	wake := slices.Clone(t.wake)
	t.mu.Unlock()
	changed := is
	if is != nil {
		t.log.Info("Leaving an object alone that cannot be decoded", "object", is.String(), "problem", is.Problem)
		if object, known := after.(client.Object); known && t.recorder != nil {
			t.recorder.Eventf(object, nil, corev1.EventTypeWarning, v1alpha1.ReasonUndecodable, "Decode", "%s", is.Error())
		}
	} else {
		changed = was
		t.log.Info("An object that could not be decoded is repaired or gone", "object", was.String())
	}
	for _, call := range wake {
		call(changed.namespaceOf())
	}
}

// namespaceOf is the namespace that an object is of; that of a Cluster has its name, and a MachineFleet has none.
func (e *Error) namespaceOf() string {
	if e.Kind == "Cluster" {
		return e.Name
	}
	return e.Namespace
}

func problemOf(object any) *Error {
	typed, known := object.(client.Object)
	if !known {
		return nil
	}
	return errorOf(typed)
}

// countKinds sets the metric of the kinds of these. The caller has the lock.
func (t *Tracker) countKinds(of ...*Error) {
	for _, one := range of {
		if one == nil {
			continue
		}
		number := 0
		for found := range t.found {
			if found.Kind == one.Kind {
				number++
			}
		}
		t.gauge.WithLabelValues(one.Kind).Set(float64(number))
	}
}

func (t *Tracker) resetMetric() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = map[Error]bool{}
	t.gauge.Reset()
}

// In returns what was found in a namespace, the Cluster of its name included, by name. A nil Tracker has found nothing.
func (t *Tracker) In(namespace string) []Error {
	return t.chooseErrors(func(e Error) bool { return e.namespaceOf() == namespace })
}

func (t *Tracker) chooseErrors(wanted func(Error) bool) []Error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []Error
	for found := range t.found {
		if wanted(found) {
			list = append(list, found)
		}
	}
	slices.SortFunc(list, func(a, b Error) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// Check is a health check: it names the objects that are left alone.
func (t *Tracker) Check(*http.Request) error {
	if list := t.chooseErrors(func(Error) bool { return true }); len(list) > 0 {
		return errors.New(Names(list))
	}
	return nil
}

// Names says what cannot be decoded, and what to do about it.
func Names(list []Error) string {
	var names []string
	for _, one := range list[:min(len(list), mostNamed)] {
		names = append(names, fmt.Sprintf("%s (%s)", one.String(), one.Problem))
	}
	if more := len(list) - mostNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return "cannot be decoded and so are left alone: " + strings.Join(names, ", ") + ": repair them with kubectl edit"
}
