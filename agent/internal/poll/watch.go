package poll

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// LongestSilence is how long a watch that reports nothing is believed.
const LongestSilence = 2 * time.Minute

// WatchFunc watches objects, or their metadata.
type WatchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)

// AwaitChange waits until one of the objects changes after they were listed in that version, at most for longest. It returns false if it
// could not watch for that long: the API server's answer, or its silence, is not to be followed by the next request at once.
func AwaitChange(ctx context.Context, watchObjects WatchFunc, version string, longest time.Duration) bool {
	bounded, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	watching, err := watchObjects(bounded, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return bounded.Err() != nil
	}
	defer watching.Stop()
	select {
	case <-bounded.Done():
		return true
	case event, open := <-watching.ResultChan():
		return bounded.Err() != nil || open && event.Type != watch.Error
	}
}
