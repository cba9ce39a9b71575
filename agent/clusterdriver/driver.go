// Package clusterdriver is the contract between the agent of a host and what runs simulated clusters there: control plane, hollow nodes
// and agent of each. The driver "local" has the keeper of a local fleet run them; "fake" is one for tests.
//
// Run the suite of package clusterdrivertest against a new driver. The rules that the suite cannot see:
//
//   - A cluster is found again by name and UID alone: keep no state that a restart of the host's agent would lose.
//   - Every call returns soon and honours its context. What takes longer continues behind the call; List tells how far it is.
//   - Never remove anything because nobody asks for it. The agent says what to remove.
package clusterdriver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Driver makes, changes and removes simulated clusters. Each call may be repeated at any time and then changes nothing more. An error is
// a *RefusedError, or says that the driver does not answer: then nothing is known.
type Driver interface {
	// Ensure asks for a cluster, or brings one with that UID to another version or credential. It returns *RefusedError before anything
	// is changed. Without an error, the driver has recorded the cluster, so that List has it from then on.
	Ensure(ctx context.Context, desired Desired) error
	// Remove starts to remove a cluster and all that was made for it, and reports whether nothing of it is left. What has another UID is
	// another cluster: it is not touched, and is not what is left.
	Remove(ctx context.Context, name, uid string) (gone bool, err error)
	// List returns all clusters that this driver has made, also those that nobody asks for. It is certain and not taken from a cache:
	// what is not among them does not exist.
	List(ctx context.Context) (Inventory, error)
}

// Desired is a simulated cluster as it is to be.
type Desired struct {
	// Name of the SimulatedCluster and of its Cluster. UID is the SimulatedCluster's.
	Name, UID string
	// ControlPlaneVersion is the version to run, such as v1.36. Empty: the driver's default. It is at most one minor later than what runs,
	// and asked for when all components are healthy. The driver upgrades the API server first, and then the controller manager and the
	// scheduler, which must never be newer: each when what went before is healthy.
	ControlPlaneVersion string
	// Resources of the control plane: cpu and memory, with no request above its limit. Empty: the driver's default. A driver refuses
	// with NoRoom what the host does not have, before it makes anything, and says in Observed.Message which of them it does not enforce.
	// Other resources than before may start the control plane again, with its data.
	Resources corev1.ResourceRequirements
	// Hub is where the cluster's agent finds its hub.
	Hub HubAccess
	// Credential is what the cluster's agent shows to the hub first; it renews it itself. Nil leaves the one that it has.
	Credential *Credential
}

// HubAccess is where a hub is, and how it shows that it is the hub.
type HubAccess struct {
	// Server is the URL of its API server. CA has the certificates of its authority, PEM encoded.
	Server string
	CA     []byte
}

// Credential is a client certificate with its key, PEM encoded.
type Credential struct{ Certificate, Key []byte }

// Phase says how far a cluster is.
type Phase string

// The phases.
const (
	// Starting: it is recorded, and does not run yet, or not for a moment.
	Starting Phase = "Starting"
	// Running: its API server has said that it is ready, at the time that Checked says, and its agent runs.
	Running Phase = "Running"
	// Failed: it could not be started or removed, or does not answer. The driver tries again by itself.
	Failed Phase = "Failed"
	// Removing: it is being removed.
	Removing Phase = "Removing"
)

// Observed is a cluster as it is.
type Observed struct {
	Name, UID string
	// Phase, and for people why it is not Running, and what they have to know of one that is.
	Phase   Phase
	Message string
	// Version is what the API server reports; empty until it has answered.
	Version string
	// ControllerManager and Scheduler are the versions of these; empty while that is not known. A driver that changes them only together with
	// the API server may leave them empty.
	ControllerManager, Scheduler string
	// Checked is when the API server last said that it is ready; zero if it does not.
	Checked time.Time
	// CredentialExpires is when the credential of the cluster's agent expires; zero if it has none.
	CredentialExpires time.Time
}

// Inventory is what a driver runs and can run.
type Inventory struct {
	Clusters []Observed
	// Versions are those that a control plane can have, such as v1.36. Empty: they are not known before Ensure.
	Versions []string
}

// Refusal says why a driver does not do what it is asked for.
type Refusal string

// The refusals.
const (
	// VersionNotSupported: it cannot run that version. RefusedError.Versions are those that it can run; empty if Problem says what rule
	// the version breaks.
	VersionNotSupported Refusal = "VersionNotSupported"
	// Downgrade: what runs is of a later minor.
	Downgrade Refusal = "Downgrade"
	// NameTaken: a cluster of that name exists and is another's.
	NameTaken Refusal = "NameTaken"
	// NoRoom: there is not enough memory, or another quota is used up.
	NoRoom Refusal = "NoRoom"
	// BeingRemoved: the cluster is being removed.
	BeingRemoved Refusal = "BeingRemoved"
	// Changing: it is still being brought to what was asked for before.
	Changing Refusal = "Changing"
	// Invalid: something else is wrong with what is asked for.
	Invalid Refusal = "Invalid"
)

// RefusedError says that a driver has answered and changed nothing.
type RefusedError struct {
	Refusal Refusal
	// Problem says what is wrong and what helps.
	Problem string
	// Versions that could be run instead, with VersionNotSupported.
	Versions []string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Refusal, e.Problem) }
