// Package follow is the live view of what happens in many clusters: the object that a user follows, and its objects in the clusters.
package follow

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// State is how something is now.
type State struct {
	// Line is printed where there are no bars. Empty prints nothing.
	Line string
	// Key decides whether Line is new: it is printed when Key is not that of the last line. The default is Line itself.
	Key string
	// Text stands behind the bar, of which Current of Total is full. It may consist of fixed words, counts and names only: it is written
	// to a terminal unescaped.
	Text           string
	Current, Total int64
	// Ended: the bar changes no more.
	Ended bool
	// WasEnded: it ended before the command started, and gets no bar.
	WasEnded bool
}

// Whole is the object that is followed.
type Whole[T client.Object] struct {
	List client.ObjectList
	// Known is the last state that the command has read; older ones are not shown.
	Known T
	// See returns how the object is, and whether it will not change any more. An error ends the following.
	See func(T) (State, bool, error)
}

// Parts are the objects in the clusters. They have the name of the whole, in the namespaces of their clusters.
type Parts[T client.Object] struct {
	List    client.ObjectList
	Example T
	// See returns how the part is, and false if it is not to be shown.
	See func(T) (State, bool)
	// Count is how many there are, as far as that is known.
	Count func() int32
}

// InBars shows a whole and its parts until the whole ends: with a bar for each on a terminal, otherwise with lines. See of the whole and of
// the parts are never called at the same time.
func InBars[W, P client.Object](ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, whole Whole[W], parts Parts[P]) error {
	if terminal, is := hub.Terminal(); is {
		return followObjects(ctx, hub, c, newBars(terminal, parts.Count), whole, parts)
	}
	return InLines(ctx, hub, c, whole, parts)
}

// InLines is InBars without bars.
func InLines[W, P client.Object](ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, whole Whole[W], parts Parts[P]) error {
	return followObjects(ctx, hub, c, &lines{hub: hub, last: map[string]string{}}, whole, parts)
}

// display shows states. The whole has no cluster.
type display interface {
	showState(cluster string, state State)
	// closeDisplay leaves what is shown.
	closeDisplay()
}

func followObjects[W, P client.Object](ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, shown display, whole Whole[W], parts Parts[P]) error {
	ctx, stop := context.WithCancel(ctx)
	var mu sync.Mutex // It guards shown, and what See reads and writes.
	ended := make(chan error, 1)
	key := client.ObjectKeyFromObject(whole.Known)
	go func() {
		ended <- cmdutil.Each(ctx, c, parts.List, client.ObjectKey{Name: key.Name}, parts.Example, func(part P) {
			mu.Lock()
			defer mu.Unlock()
			if state, is := parts.See(part); is {
				shown.showState(part.GetNamespace(), state)
			}
		})
	}()
	err := cmdutil.Until(ctx, c, whole.List, key, whole.Known, func(now W) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		state, done, err := whole.See(now)
		shown.showState("", state)
		return done, err
	})
	stop()
	failed := <-ended
	shown.closeDisplay()
	if !errors.Is(failed, context.Canceled) && !errors.Is(failed, context.DeadlineExceeded) {
		hub.Note("The clusters of %s could not be followed: %v", key.Name, failed)
	}
	return err
}

// lines is a display that prints a line for each change.
type lines struct {
	hub  *cmdutil.Hub
	last map[string]string
}

func (l *lines) showState(cluster string, state State) {
	key := cmp.Or(state.Key, state.Line)
	if state.Line != "" && l.last[cluster] != key {
		l.last[cluster] = key
		l.hub.Say("%s", state.Line)
	}
}

func (l *lines) closeDisplay() {}
