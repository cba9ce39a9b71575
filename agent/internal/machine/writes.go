package machine

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeMemory is how long a write is waited for in the cache. After it the cache is believed: the API server
// may have been restored to an older state.
const writeMemory = 10 * time.Second

// writes remembers what the agent itself wrote last to an object, so that it does not act on a cache that has
// not seen it yet.
type writes struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	byUID map[types.UID]written
	swept time.Time
}

type written struct {
	version uint64
	at      time.Time
}

func newWrites(clock clock.PassiveClock) *writes {
	return &writes{clock: clock, byUID: map[types.UID]written{}}
}

// record remembers that the object with this UID has this resource version since the agent's last write.
func (w *writes) record(uid types.UID, resourceVersion string) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	w.byUID[uid] = written{version: version, at: now}
	if now.Sub(w.swept) > writeMemory {
		w.swept = now
		maps.DeleteFunc(w.byUID, func(_ types.UID, last written) bool { return now.Sub(last.at) > writeMemory })
	}
}

// stale tells whether object is older than the agent's last write to it.
func (w *writes) stale(object client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.byUID[object.GetUID()]
	if !ok {
		return false
	}
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil || version >= last.version || w.clock.Since(last.at) > writeMemory {
		delete(w.byUID, object.GetUID())
		return false
	}
	return true
}

// recording returns a StatusClient whose writes are remembered.
func (w *writes) recording(inner client.StatusClient) client.StatusClient {
	return recordingClient{inner: inner, writes: w}
}

type recordingClient struct {
	inner  client.StatusClient
	writes *writes
}

func (r recordingClient) Status() client.SubResourceWriter {
	return recordingWriter{SubResourceWriter: r.inner.Status(), writes: r.writes}
}

type recordingWriter struct {
	client.SubResourceWriter
	writes *writes
}

func (r recordingWriter) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	err := r.SubResourceWriter.Update(ctx, object, options...)
	return r.noted(object, err)
}

func (r recordingWriter) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	err := r.SubResourceWriter.Patch(ctx, object, patch, options...)
	return r.noted(object, err)
}

// Apply is not remembered: the runner patches.
func (r recordingWriter) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	return r.SubResourceWriter.Apply(ctx, object, options...)
}

func (r recordingWriter) noted(object client.Object, err error) error {
	if err == nil {
		r.writes.record(object.GetUID(), object.GetResourceVersion())
	}
	return err
}
