// Package podhost runs the pods of a Kubernetes node as processes of this
// machine, for clusters in which no kubelet runs. It is a virtual-kubelet node
// with the identity of a real one: the Node authorizer and the NodeRestriction
// admission apply to it.
//
// What is like on a kubelet: restart policies and back-off, init containers,
// probes, environment, downward API, Secret, ConfigMap, projected and emptyDir
// volumes, statuses, logs, and deletion with a grace period.
//
// What differs, because there are no containers:
//
//   - An image is a directory that plays the root file system. A container
//     needs a command; its program is looked for in that directory.
//   - Volumes do not appear at their mount paths. Instead, mount paths in the
//     command, arguments, literal environment values and working directory are
//     replaced by the volumes' directories. A mount that is mentioned nowhere
//     is refused. Files must not mention mount paths.
//   - A pod has a loopback address of its own, to which its processes are to
//     bind. Nothing keeps them from binding to others.
//   - A podhost that runs as root runs containers as the users they name, as
//     user 65532 if they name none and must not be root, and else as root. Any
//     other podhost runs them as its own user: in place of another number only
//     if runAsNonRoot is set, as a user namespace would map it.
//   - Seccomp and AppArmor profiles "RuntimeDefault" are unconfined.
//   - Requests count for the scheduler, limits are refused.
//   - Names are resolved as the machine does it, whatever dnsPolicy says.
//   - terminationMessagePath is not read; terminationMessagePolicy
//     FallbackToLogsOnError works.
//   - When the podhost ends, however it ends, the processes end with it, and
//     so does all that they started. The next podhost of the same Node starts
//     the pods again as far as their restart policies allow. The content of
//     emptyDir volumes stays.
//
// Everything else that a spec can ask for is refused: the pod stays pending
// and an event with reason Unsupported names the fields. Package support has
// the list.
package podhost

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/volume"
)

const (
	// workers is how many pods are started, and how many statuses written, at
	// the same time.
	workers = 16
	// clientQPS and clientBurst leave room for many pods that start at once.
	clientQPS   = 100
	clientBurst = 200
	// markerName names the variable that marks the processes of a podhost.
	markerName    = "HOLLOWFLEET_PODHOST"
	logDirectory  = "logs"
	packDirectory = "packs"
	// controllersTimeout bounds the wait for the controllers at the end. They
	// may be waiting for an API server that does not answer.
	controllersTimeout = 2 * time.Second
)

// Run runs a podhost until the context ends. All processes of its pods have
// ended when it returns.
func Run(ctx context.Context, options Options) (err error) {
	if err := options.complete(); err != nil {
		return err
	}
	h, err := newHost(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.release()) }()
	return h.run(ctx)
}

// Clean removes the files that a podhost left, inside its data directory and
// outside it. It returns the paths of what it left because no podhost made it.
// No podhost may be using the directory.
func Clean(dataDir string) (left []string, err error) {
	left, err = volume.Clean(dataDir)
	logs, logsErr := poddir.Clean(filepath.Join(dataDir, logDirectory))
	packs, packsErr := poddir.Clean(filepath.Join(dataDir, packDirectory))
	return slices.Concat(left, logs, packs), errors.Join(err, logsErr, packsErr)
}
