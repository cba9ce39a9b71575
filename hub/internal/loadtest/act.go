package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
)

// act carries a decision out. A cluster whose run cannot be written stops no other one. What cannot be made is named as a failure,
// until it is made.
func (c *Controller) act(ctx context.Context, test *v1alpha1.LoadTest, d *Decision) error {
	var problems []error
	for i := range d.Create {
		if err := c.createObject(ctx, test, &d.Create[i], &v1alpha1.LoadTestRun{}); err != nil {
			fanout.NoteFailure(&test.Status.Failures, d.Create[i].Namespace, "its run could not be created: "+err.Error())
			problems = append(problems, err)
		}
	}
	if len(d.Start) > 0 {
		start := fmt.Sprintf(`"spec":{"startTime":%q}`, test.Status.StartTime.UTC().Format(time.RFC3339))
		for _, run := range d.Start {
			// Without the lock a step that rests on a cache which is behind would give a run another time than the one before it.
			problems = append(problems, fanout.PatchAll(ctx, c.Client, []*v1alpha1.LoadTestRun{run}, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},%s}`, run.ResourceVersion, start)))
		}
	}
	problems = append(problems, fanout.PatchAll(ctx, c.Client, d.Stop, []byte(`{"spec":{"stopped":true}}`)))
	for i := range d.Disrupt {
		problems = append(problems, c.createObject(ctx, test, &d.Disrupt[i], &v1alpha1.NodeDisruptionRun{}))
	}
	problems = append(problems, fanout.PatchAll(ctx, c.Client, d.Restore, []byte(`{"spec":{"paused":true}}`)))
	return errors.Join(problems...)
}

// createObject makes an object for the test, unless it is there already. One of another owner, of which the cache does not know yet, is
// an error: the next step knows it.
func (c *Controller) createObject(ctx context.Context, test *v1alpha1.LoadTest, object, there client.Object) error {
	owner, err := parentOf(test).Create(ctx, c.Client, c.Live, object, there)
	if err == nil && owner != fanout.Ours {
		err = fmt.Errorf("creating %T %s: another one is there already", object, client.ObjectKeyFromObject(object))
	}
	return err
}
