package plane

import (
	"errors"
	"reflect"
	"time"

	"k8s.io/client-go/util/workqueue"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
)

const (
	// ownPeriod is how often an API server looks for changes in the OpenAPI specs of the servers behind it, restingPeriod how often it does
	// when startingTime has passed since it started: the kinds of a cluster change seldom after that.
	ownPeriod, restingPeriod = time.Second, 10 * time.Second
	startingTime             = time.Minute
)

// restOpenAPI lets the server look for changes in specs seldom: at its own pace, that is a quarter of what wakes it at rest.
func restOpenAPI(server *aggregator.APIAggregator) error {
	problem := errors.New("looking for OpenAPI specs less often: the aggregator keeps its queue in another way")
	controller := reflect.ValueOf(server).Elem().FieldByName("openAPIV3AggregationController")
	if controller.Kind() != reflect.Pointer || controller.IsNil() {
		return problem
	}
	queue := controller.Elem().FieldByName("queue")
	if !queue.IsValid() || queue.Type() != reflect.TypeFor[workqueue.TypedRateLimitingInterface[string]]() {
		return problem
	}
	held := (*workqueue.TypedRateLimitingInterface[string])(queue.Addr().UnsafePointer())
	*held = restingQueue{*held, time.Now()}
	return nil
}

// restingQueue is the queue of the controller that looks for changes in specs.
type restingQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	started time.Time
}

// AddAfter adds what is to be looked at again.
func (q restingQueue) AddAfter(key string, after time.Duration) {
	if after == ownPeriod && time.Since(q.started) > startingTime {
		after = restingPeriod
	}
	q.TypedRateLimitingInterface.AddAfter(key, after)
}
