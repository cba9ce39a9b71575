package queuemetrics_test

import (
	"runtime"
	"testing"

	"k8s.io/client-go/util/workqueue"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // Sets the provider of metrics.

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/queuemetrics"
)

// queues is large enough to tell their goroutines from others.
const queues = 50

// goroutinesOf returns how many goroutines that many queues have.
func goroutinesOf(t *testing.T) int {
	t.Helper()
	before := runtime.NumGoroutine()
	for range queues {
		queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "q"})
		t.Cleanup(queue.ShutDown)
	}
	return runtime.NumGoroutine() - before
}

func TestQueuesHaveNoGoroutineForMetrics(t *testing.T) {
	with := goroutinesOf(t)
	if err := queuemetrics.TurnOff(); err != nil {
		t.Fatal(err)
	}
	without := goroutinesOf(t)
	if with-without < queues*9/10 {
		t.Errorf("%d queues have %d goroutines with metrics and %d without: want one less for each", queues, with, without)
	}
}
