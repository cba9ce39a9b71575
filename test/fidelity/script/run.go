package script

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Recording is what one side made of each step, by name.
type Recording map[string]*Record

// atOnce is how many steps run at the same time: on two cores, starts of real containers must not wait for each other.
const atOnce = 2

// Play runs the script on one side: first the steps that leave the node alone, several at once, then the others in their order. A step
// that cannot be carried out has an error in its record, and the script continues.
func Play(ctx context.Context, side *Side, steps []*Step, progress func(line string)) Recording {
	recording, lock := Recording{}, sync.Mutex{}
	if err := warmUp(ctx, side); err != nil {
		progress(side.Name + ": warming up: " + err.Error())
	}
	play := func(step *Step) {
		r, started := newRecord(), time.Now()
		if err := step.Run(ctx, side, r); err != nil {
			r.Error = err.Error()
		}
		progress(fmt.Sprintf("%s: %s: %.1f s %s", side.Name, step.Name, time.Since(started).Seconds(), r.Error))
		lock.Lock()
		defer lock.Unlock()
		recording[step.Name] = r
	}
	var together errgroup.Group
	together.SetLimit(atOnce)
	for _, step := range steps {
		if step.Run != nil && !step.Alone {
			together.Go(func() error { play(step); return nil })
		}
	}
	_ = together.Wait() // Errors are in the records.
	for _, step := range steps {
		if step.Run != nil && step.Alone && ctx.Err() == nil {
			play(step)
		}
	}
	return recording
}

// warmUp lets the node run a pod, so that no step is the first that needs the image.
func warmUp(ctx context.Context, side *Side) error {
	s, end, err := openScene(ctx, side, "warm-up")
	if err != nil {
		return err
	}
	defer end()
	if err := s.create(ctx, side.newPod("first", nil)); err != nil {
		return err
	}
	_, err = s.until(ctx, "first", "Ready", isReady)
	return err
}

// CompareAll compares both recordings, in the order of the script.
func CompareAll(steps []*Step, realNode, hollow Recording) (all []Comparison) {
	missing := func(record *Record) *Record {
		if record == nil {
			return &Record{Error: "not reached"}
		}
		return record
	}
	for _, step := range steps {
		all = append(all, Compare(step, missing(realNode[step.Name]), missing(hollow[step.Name])))
	}
	return all
}
