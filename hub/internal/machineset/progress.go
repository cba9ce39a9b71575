package machineset

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// setMemory is how long a set's generation is remembered. By then it has long been written into the set's status.
const setMemory = time.Hour

// Sets remembers on which generation of each MachineSet its controller in this process has worked. No creation or
// deletion for an earlier generation is under way any more, and those for this one are among the Machines that the API
// server has. The set's status says the same, later. Nil remembers nothing, so that only the status counts.
type Sets struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	done  map[types.UID]work
	swept time.Time
	news  reconciler.News
}

type work struct {
	generation int64
	at         time.Time
}

// NewSets returns Sets that have seen nothing yet.
func NewSets(clock clock.PassiveClock) *Sets {
	return &Sets{clock: clock, done: map[types.UID]work{}, news: reconciler.NewNews()}
}

// Done notes that the controller has worked on set as it is, and reports whether it is remembered. A generation that is
// noted for the first time is news.
func (s *Sets) Done(set *v1alpha1.MachineSet) (remembered bool) {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if now.Sub(s.swept) > setMemory {
		s.swept = now
		maps.DeleteFunc(s.done, func(_ types.UID, known work) bool { return now.Sub(known.at) > setMemory })
	}
	if s.done[set.UID].generation >= set.Generation {
		return true
	}
	s.done[set.UID] = work{generation: set.Generation, at: now}
	s.news.Send(event.GenericEvent{Object: &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: set.Name, UID: set.UID, Labels: set.Labels, OwnerReferences: set.OwnerReferences,
	}}})
	return true
}

// Worked returns the generation of the set of that UID on which the controller has worked last; 0 is none.
func (s *Sets) Worked(set types.UID) int64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[set].generation
}

// News returns the channel with the sets, by metadata only, that were worked on. It has one reader.
func (s *Sets) News() <-chan event.GenericEvent {
	if s == nil {
		return make(chan event.GenericEvent)
	}
	return s.news
}
