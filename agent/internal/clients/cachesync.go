package clients

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// NewCacheUntil makes the caches of a manager that is told to stop when ctx ends, maybe before they are filled, such as while
// an API server is away.
//
// A manager of controller-runtime v0.25 waits in a busy loop until each of its caches says that it is filled, also
// when its own context has ended (pull request 3440 there tells of it). So these end the wait with ctx. What the
// manager starts then still cannot read from a cache that is not filled, and is stopped at once.
func NewCacheUntil(ctx context.Context) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		made, err := cache.New(config, options)
		if err != nil {
			return nil, err
		}
		return until{Cache: made, end: ctx.Done()}, nil
	}
}

type until struct {
	cache.Cache
	end <-chan struct{}
}

// WaitForCacheSync implements cache.Cache. It returns true also when the manager is to stop.
func (c until) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return c.Cache.WaitForCacheSync(ctx) || c.ended()
}

func (c until) ended() bool {
	select {
	case <-c.end:
		return true
	default:
		return false
	}
}
