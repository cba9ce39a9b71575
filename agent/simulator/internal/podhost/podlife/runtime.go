// Package podlife runs single pods, from the check of the spec and the making of
// volumes over init containers, restarts and probes to the end.
//
// A Pod is driven by goroutines of its own. Everything that is known about it
// is in its status, which is published whenever it changed.
package podlife

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/address"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/backoff"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/environment"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/image"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/packs"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/support"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/volume"
)

// Runtime is what all pods of a podhost have in common.
type Runtime struct {
	Images image.Set
	Host   support.HostUser
	// HollowNodesOf is the namespace whose hollow-node pods run, and no others; empty for any pod.
	HollowNodesOf string
	// Launcher starts the processes of containers, and Packs does so for hollow nodes that may share one.
	Launcher  *process.Launcher
	Packs     *packs.Launcher
	Addresses *address.Pool
	Volumes   *volume.Manager
	Objects   environment.Objects
	Services  environment.ServiceLister
	// APIHost and APIPort are where pods find the API server.
	APIHost, APIPort string
	// Allocatable is what the node has to offer.
	Allocatable corev1.ResourceList
	// LogDir holds one directory per pod, LogLimit bounds a log file in bytes.
	LogDir   string
	LogLimit int64
	// Marker is a variable, as NAME=VALUE, that marks every process of this podhost.
	Marker  string
	Backoff backoff.Policy
	// RefreshPeriod is the time between two looks at the volumes' sources.
	RefreshPeriod time.Duration
	Recorder      record.EventRecorder
	// Publish is called with a copy of the pod after its status has changed.
	// Calls for one pod do not overlap.
	Publish func(*corev1.Pod)
}

const (
	// publishDelay collects the changes that come in one burst.
	publishDelay = 20 * time.Millisecond
	// firstRetry and lastRetry bound the time between attempts at something
	// that may succeed once the cluster's objects are there.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 10 * time.Second
)
