package driver

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of errors that callers ask for with errors.Is. errors.As with the types below gives the details, and is the
// only way to ask for RetryableError and ExhaustedError: their callers need to know how long to wait.
var (
	// ErrNotFound: there is no instance.
	ErrNotFound = errors.New("instance not found")
	// ErrInvalidConfiguration: the user has to change the Machine or its MachineClass. Nothing is retried.
	ErrInvalidConfiguration = errors.New("invalid configuration")
	// ErrInPlaceUnsupported: the provider cannot change this instance. The Machine has to be replaced.
	ErrInPlaceUnsupported = errors.New("update in place unsupported")
)

// NotFoundError says that a Machine has no instance.
type NotFoundError struct {
	// Machine is its name.
	Machine string
	// ProviderID is what the instance had or would have; empty if that cannot be told without one. By it, and by its own
	// annotations, the agent recognizes the Node that an instance has left behind.
	ProviderID string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no instance of machine %q", e.Machine) }

// Is makes errors.Is(err, ErrNotFound) hold.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// InvalidConfigurationError says which field cannot be used as it is.
type InvalidConfigurationError struct {
	// Field is the path of the field from the object that the user wrote, such as
	// "providerConfig.capacity.cpu" or "spec.versions.controlPlane".
	Field string
	// Problem says what is wrong and how to put it right.
	Problem string
}

func (e *InvalidConfigurationError) Error() string { return e.Field + ": " + e.Problem }

// Is makes errors.Is(err, ErrInvalidConfiguration) hold.
func (e *InvalidConfigurationError) Is(target error) bool { return target == ErrInvalidConfiguration }

// RetryableError says when to try again.
type RetryableError struct {
	// After is how long to wait. 0 means the agent's own back-off.
	After time.Duration
	// Err is the cause.
	Err error
}

func (e *RetryableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryableError) Unwrap() error { return e.Err }

// ExhaustedError says that the provider has no room: a quota or a capacity is used up.
type ExhaustedError struct {
	// Resource is what there is not enough of.
	Resource string
	// After is how long to wait before the next attempt. 0 means a minute.
	After time.Duration
}

func (e *ExhaustedError) Error() string { return "no more " + e.Resource + " at the provider" }

// InPlaceUnsupportedError says that an instance cannot be brought to another configuration while its Node stays.
type InPlaceUnsupportedError struct {
	// Problem says what cannot be changed in place.
	Problem string
}

func (e *InPlaceUnsupportedError) Error() string { return "cannot update in place: " + e.Problem }

// Is makes errors.Is(err, ErrInPlaceUnsupported) hold.
func (e *InPlaceUnsupportedError) Is(target error) bool { return target == ErrInPlaceUnsupported }

// Invalid returns an *InvalidConfigurationError.
func Invalid(field, format string, args ...any) error {
	return &InvalidConfigurationError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
