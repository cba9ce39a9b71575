package dashboard

import (
	"context"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// rightsTime is how long an answer about a right is used again: who loses it is refused by the API server anyway.
const rightsTime = 15 * time.Second

// rights remembers what the user may do.
type rights struct {
	mu  sync.Mutex
	all map[right]answer
}

// right is a verb on an object. Name is empty for any.
type right struct{ verb, resource, name string }

type answer struct {
	allowed bool
	at      time.Time
}

// mayDo asks the hub's API server whether the user has all of some rights.
func (r *rights) mayDo(ctx context.Context, c client.Client, now time.Time, wanted ...right) (bool, error) {
	for _, one := range wanted {
		allowed, err := r.mayDoOne(ctx, c, now, one)
		if err != nil || !allowed {
			return false, err
		}
	}
	return true, nil
}

func (r *rights) mayDoOne(ctx context.Context, c client.Client, now time.Time, wanted right) (bool, error) {
	r.mu.Lock()
	known, is := r.all[wanted]
	r.mu.Unlock()
	if is && now.Sub(known.at) < rightsTime {
		return known.allowed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestGlance)
	defer cancel()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: wanted.verb, Group: v1alpha1.GroupVersion.Group, Resource: wanted.resource, Name: wanted.name,
		},
	}}
	if err := c.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking the hub what you may do: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) > 10*mostFleets {
		r.all = map[right]answer{}
	}
	r.all[wanted] = answer{review.Status.Allowed, now}
	return review.Status.Allowed, nil
}
