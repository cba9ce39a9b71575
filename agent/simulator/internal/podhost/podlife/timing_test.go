package podlife

import (
	"testing"
	"time"
)

func TestStopIsOnlyBroughtForward(t *testing.T) {
	s := newStopper()
	if deadline, _ := s.current(); s.isRequested() || !deadline.IsZero() {
		t.Fatal("a new stopper is not idle")
	}
	isClosed := func(changed <-chan struct{}) bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	_, changed := s.current()
	s.request(time.Hour)
	if !s.isRequested() || !isClosed(changed) {
		t.Error("the first request was not noticed")
	}
	first, changed := s.current()
	s.request(2 * time.Hour)
	if later, _ := s.current(); !later.Equal(first) || isClosed(changed) {
		t.Errorf("a longer period moved the deadline from %s to %s", first, later)
	}
	s.request(time.Minute)
	if earlier, _ := s.current(); !earlier.Before(first) || !isClosed(changed) {
		t.Errorf("a shorter period moved the deadline from %s to %s", first, earlier)
	}
}
