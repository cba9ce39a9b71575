package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// act carries a decision out. A cluster whose run cannot be written stops no other one. What cannot be made is named as a failure,
// until it is made.
func (c *Controller) act(ctx context.Context, test *v1alpha1.LoadTest, d *Decision) error {
	var problems []error
	for i := range d.Create {
		if err := c.createObject(ctx, test, &d.Create[i], &v1alpha1.LoadTestRun{}); err != nil {
			noteFailure(&test.Status, d.Create[i].Namespace, "its run could not be made: "+err.Error())
			problems = append(problems, err)
		}
	}
	if len(d.Start) > 0 {
		start := fmt.Sprintf(`"spec":{"startTime":%q}`, test.Status.StartTime.UTC().Format(time.RFC3339))
		for _, run := range d.Start {
			// Without the lock a step that rests on a cache which is behind would give a run another time than the one before it.
			problems = append(problems, patchAll(ctx, c.Client, []*v1alpha1.LoadTestRun{run}, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},%s}`, run.ResourceVersion, start)))
		}
	}
	problems = append(problems, patchAll(ctx, c.Client, d.Stop, []byte(`{"spec":{"stopped":true}}`)))
	for i := range d.Disrupt {
		problems = append(problems, c.createObject(ctx, test, &d.Disrupt[i], &v1alpha1.NodeDisruptionRun{}))
	}
	problems = append(problems, patchAll(ctx, c.Client, d.Restore, []byte(`{"spec":{"paused":true}}`)))
	return errors.Join(problems...)
}

// patchAll writes the same patch to all objects. They are of the cache, and stay as they are.
func patchAll[T client.Object](ctx context.Context, c client.Client, objects []T, patch []byte) error {
	var problems []error
	for _, object := range objects {
		copied, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			continue
		}
		if err := c.Patch(ctx, copied, client.RawPatch(client.Merge.Type(), patch)); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("patching %T %s: %w", object, client.ObjectKeyFromObject(object), err))
		}
	}
	return errors.Join(problems...)
}

// createObject makes an object for the test, unless it is there already. One of another owner, of which the cache does not know yet, is
// an error: the next step knows it.
func (c *Controller) createObject(ctx context.Context, test *v1alpha1.LoadTest, object, there client.Object) error {
	err := c.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(object), there); err != nil {
			return fmt.Errorf("getting %T %s, which is there already: %w", object, client.ObjectKeyFromObject(object), err)
		}
		if metav1.IsControlledBy(there, test) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("creating %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// noteFailure names a cluster as a failure.
func noteFailure(status *v1alpha1.LoadTestStatus, cluster, message string) {
	failure := v1alpha1.LoadTestFailure{Cluster: cluster, Message: conditions.Shorten(message, mostMessage)}
	at := slices.IndexFunc(status.Failures, func(f v1alpha1.LoadTestFailure) bool { return f.Cluster == cluster })
	switch {
	case at >= 0:
		status.Failures[at] = failure
	case len(status.Failures) < mostFailures:
		status.Failures = append(status.Failures, failure)
	}
}
