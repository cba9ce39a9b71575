package localclusters

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ErrUnavailable is wrapped when the keeper does not answer, or not as a keeper does. Then nothing is known of its clusters.
var ErrUnavailable = errors.New("the keeper of the local fleet does not answer")

// Reason says of what kind a Problem is.
type Reason string

const (
	// Invalid is a request with a field that cannot be right.
	Invalid Reason = "Invalid"
	// VersionNotSupported is a request for a version that the keeper's programs cannot run; Problem.Versions are those that they can.
	VersionNotSupported Reason = "VersionNotSupported"
	// NameTaken is a request for a name that a cluster with another UID has, or one of the fleet's own.
	NameTaken Reason = "NameTaken"
	// BeingRemoved is a request for a cluster that is being removed.
	BeingRemoved Reason = "BeingRemoved"
	// Changing is a request for a change of a cluster that an earlier change has not reached yet.
	Changing Reason = "Changing"
	// Downgrade is a request for an earlier version than that which a cluster has.
	Downgrade Reason = "Downgrade"
	// NoRoom is a request for a cluster for which the machine has not enough memory.
	NoRoom Reason = "NoRoom"
	// NotFound is a question about a cluster that there is not.
	NotFound Reason = "NotFound"
)

// statusCodes are those with which the keeper answers.
var statusCodes = map[Reason]int{
	Invalid: http.StatusUnprocessableEntity, VersionNotSupported: http.StatusUnprocessableEntity, NameTaken: http.StatusConflict,
	Downgrade: http.StatusUnprocessableEntity, BeingRemoved: http.StatusConflict, Changing: http.StatusConflict, NoRoom: http.StatusInsufficientStorage, NotFound: http.StatusNotFound,
}

// Problem is why the keeper refuses a request.
type Problem struct { //nolint:errname // It is what a keeper answers, too.
	Reason Reason `json:"reason"`
	// Field is the field of Desired, such as controlPlaneVersion. It may be empty.
	Field string `json:"field,omitempty"`
	// Message says what is wrong and what helps.
	Message string `json:"message"`
	// Versions are set with VersionNotSupported.
	Versions []string `json:"versions,omitempty"`
}

func (p *Problem) Error() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// ReasonOf is the reason of a Problem in err; empty if there is none.
func ReasonOf(err error) Reason {
	if problem := (*Problem)(nil); errors.As(err, &problem) {
		return problem.Reason
	}
	return ""
}

func invalidError(field, format string, args ...any) error {
	return &Problem{Reason: Invalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// VersionError refuses a version that is none of supported.
func VersionError(version string, supported []string) error {
	return &Problem{
		Reason: VersionNotSupported, Field: "controlPlaneVersion", Versions: supported,
		Message: fmt.Sprintf("%s cannot be run here: choose one of %s", version, strings.Join(supported, ", ")),
	}
}
