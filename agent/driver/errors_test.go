package driver_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/driver"
)

func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	kinds := []error{driver.ErrNotFound, driver.ErrInvalidConfiguration, driver.ErrInPlaceUnsupported}
	tests := map[string]struct {
		err     error
		kind    error
		message string
	}{
		"not found": {&driver.NotFoundError{Machine: "m1"}, driver.ErrNotFound, `no instance of machine "m1"`},
		"invalid":   {driver.Invalid("spec.a", "want %d", 5), driver.ErrInvalidConfiguration, "spec.a: want 5"},
		"retryable": {&driver.RetryableError{After: time.Second, Err: cause}, nil, "cause"},
		"exhausted": {&driver.ExhaustedError{Resource: "hosts"}, nil, "no more hosts at the provider"},
		"in place":  {&driver.InPlaceUnsupportedError{Problem: "no way"}, driver.ErrInPlaceUnsupported, "cannot update in place: no way"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wrapped := fmt.Errorf("doing x: %w", test.err)
			for _, kind := range kinds {
				if got := errors.Is(wrapped, kind); got != errors.Is(test.kind, kind) {
					t.Errorf("errors.Is(…, %v) = %t", kind, got)
				}
			}
			if test.err.Error() != test.message {
				t.Errorf("message %q, want %q", test.err, test.message)
			}
		})
	}
	if !errors.Is(&driver.RetryableError{Err: cause}, cause) {
		t.Error("the cause of a retryable error is lost")
	}
}
