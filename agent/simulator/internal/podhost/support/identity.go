package support

import (
	"errors"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
)

// nonRootUser is the user and group of containers that must not be root and
// name no user. Distroless images use the same number for it.
const nonRootUser = 65532

// HostUser is the user that the podhost itself runs as.
type HostUser struct {
	UID, GID int
}

// CurrentUser returns the user of this process.
func CurrentUser() HostUser { return HostUser{UID: os.Geteuid(), GID: os.Getegid()} }

// IsRoot reports whether the podhost can run processes as other users.
func (u HostUser) IsRoot() bool { return u.UID == 0 }

// Identity computes the user and privileges of a container.
//
// A podhost that runs as root honours the numbers. One that does not can only
// run processes as its own user. It then takes that user for whatever user the
// container names, as a user namespace would map it, but only if the container
// also says that it must not be root: this is the part that can be honoured.
func Identity(pod *corev1.Pod, container *corev1.Container, host HostUser) (process.Identity, error) {
	podContext := ptr.Deref(pod.Spec.SecurityContext, corev1.PodSecurityContext{})
	context := ptr.Deref(container.SecurityContext, corev1.SecurityContext{})
	user := first(context.RunAsUser, podContext.RunAsUser)
	group := first(context.RunAsGroup, podContext.RunAsGroup)
	nonRoot := ptr.Deref(first(context.RunAsNonRoot, podContext.RunAsNonRoot), false)

	identity := process.Identity{
		NoNewPrivileges:  !ptr.Deref(context.AllowPrivilegeEscalation, true),
		DropCapabilities: context.Capabilities != nil && slices.Contains(context.Capabilities.Drop, allCapabilities),
	}
	if nonRoot && user != nil && *user == 0 {
		return identity, errors.New("runAsUser is root although runAsNonRoot is set")
	}
	if host.IsRoot() {
		return asRoot(identity, user, group, nonRoot), nil
	}
	if nonRoot {
		return identity, nil
	}
	if user != nil && *user != int64(host.UID) {
		return identity, fmt.Errorf("runAsUser %d cannot be honoured by a podhost that runs as user %d; set runAsNonRoot: true to accept its own user instead", *user, host.UID)
	}
	if group != nil && *group != int64(host.GID) {
		return identity, fmt.Errorf("runAsGroup %d cannot be honoured by a podhost that runs as group %d; set runAsNonRoot: true to accept its own group instead", *group, host.GID)
	}
	return identity, nil
}

// asRoot fills in the user and group. Without a group it is the one with the
// user's number, rather than root's.
func asRoot(identity process.Identity, user, group *int64, nonRoot bool) process.Identity {
	if user == nil && nonRoot {
		user = ptr.To[int64](nonRootUser)
	}
	if user == nil && group == nil {
		return identity
	}
	identity.SwitchUser = true
	identity.UID = int(ptr.Deref(user, 0))
	identity.GID = int(ptr.Deref(group, int64(identity.UID)))
	return identity
}

func first[T any](values ...*T) *T {
	for _, value := range values {
		if value != nil {
			return value
		}
	}
	return nil
}
