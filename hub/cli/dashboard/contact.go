package dashboard

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

const (
	// glance is how often the store asks whether the hub's API server answers, and longestGlance how long it waits for that.
	glance, longestGlance = 2 * time.Second, 3 * time.Second
	// mostQuiet is how long nothing may have been heard of the API server before the page says that it is old.
	mostQuiet = 3*glance + longestGlance
	// kindsGlance is how often the store looks for kinds that are being deleted.
	kindsGlance = 30 * time.Second
)

// contact is what is known of the hub and its API server.
type contact struct {
	// heard is when the API server answered last; zero if it never has.
	heard time.Time
	// failure is why it has not answered since.
	failure string
	// hub is what the Lease of the hub says, as far as it could be read, unread is why it could not, and forbidden that it may not be.
	hub       cmdutil.HubState
	unread    string
	forbidden bool
	// removed are the kinds that are being deleted.
	removed []string
}

// followHub keeps the contact up to date.
func (s *store) followHub(ctx context.Context) {
	var asked time.Time
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		s.readHub(ctx)
		if time.Since(asked) > kindsGlance {
			asked = time.Now()
			s.readRemovedKinds(ctx)
		}
	}, glance)
}

// readHub asks for the Lease of the hub. Any answer proves that the API server works, a refusal too.
func (s *store) readHub(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, longestGlance)
	defer cancel()
	state, err := cmdutil.ReadHubState(asking, s.client, time.Now())
	if ctx.Err() != nil {
		return
	}
	s.noteRefusal(err)
	s.update(func() bool {
		before := s.contact
		switch {
		case err == nil:
			s.contact.hub, s.contact.unread, s.contact.forbidden = state, "", false
		case apierrors.IsForbidden(err):
			s.contact.hub = cmdutil.HubState{Version: cmdutil.UnknownVersion}
			s.contact.unread, s.contact.forbidden = "you may not read its Lease: "+overview.RootCause(err), true
		default:
			s.contact.failure = cmdutil.Printable(overview.RootCause(err))
			return before.failure != s.contact.failure
		}
		s.contact.heard, s.contact.failure = time.Now(), ""
		return before.failure != "" || before.unread != s.contact.unread || before.hub.Problem != state.Problem || before.hub.Holder != state.Holder
	})
}

func (s *store) readRemovedKinds(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, longestGlance)
	defer cancel()
	removed, err := cmdutil.RemovedKinds(asking, s.client)
	if err != nil {
		return // Whether the API server answers, readHub finds out.
	}
	s.update(func() bool {
		s.contact.removed = removed
		return true
	})
}

// contactNow is a copy of the contact.
func (s *store) contactNow() contact {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.contact
}
