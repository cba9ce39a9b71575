package cli

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

// notLooked opens the problem of a hub whose Lease the user may not read.
const notLooked = "not checked: "

// HubDocument is what is known of the hub.
type HubDocument struct {
	// healthy: the hub renews its Lease.
	Healthy bool `json:"healthy"`
	// version of the hub that has the Lease, or "unknown".
	Version string `json:"version,omitempty"`
	// holder is the process that has the Lease.
	Holder string `json:"holder,omitempty"`
	// problem says why the hub does not work, or why that is not known; absent if healthy.
	Problem string `json:"problem,omitempty"`
}

// StatusDocument is what "kubectl hollow status -o json" prints. With --watch there is one in each line, in the order of time.
type StatusDocument struct {
	// apiVersion is "cli.hollowfleet.io/v1".
	APIVersion string `json:"apiVersion"`
	// kind is "Status".
	Kind string `json:"kind"`
	// time is when the fleet was looked at.
	Time metav1.Time `json:"time"`
	// namespace is the only one that was looked at; absent if all were. notSeen says what was not.
	Namespace string `json:"namespace,omitempty"`
	NotSeen   string `json:"notSeen,omitempty"`
	// healthy: no object is a problem, and all was looked at. The exit code is 0 then.
	Healthy bool `json:"healthy"`
	// problem is what the error says that the command ends with; absent if healthy.
	Problem string `json:"problem,omitempty"`
	// staleSince is when the hub's API server answered last, with --watch, if it does not answer now: everything else is from then.
	StaleSince *metav1.Time `json:"staleSince,omitempty"`
	// staleKinds are those whose objects are shown as they were, with --watch, because they cannot be followed now.
	StaleKinds []overview.StaleKind `json:"staleKinds,omitempty"`
	// hub is what is known of the hub.
	Hub HubDocument `json:"hub"`
	// removedKinds are those that are being deleted with all their objects.
	RemovedKinds []string `json:"removedKinds,omitempty"`
	// kinds has an item for each kind, in an order that stays.
	Kinds []health.Count `json:"kinds"`
	// rollouts are those of MachineFleets and SimulatedClusterSets that are not complete.
	Rollouts []overview.Rollout `json:"rollouts,omitempty"`
	// objects are those that are not healthy: problems first, then by kind in the order of kinds, the longest first.
	Objects []health.Finding `json:"objects"`
}

// VersionDocument is what "kubectl hollow version -o json" prints.
type VersionDocument struct {
	// apiVersion is "cli.hollowfleet.io/v1".
	APIVersion string `json:"apiVersion"`
	// kind is "Version".
	Kind string `json:"kind"`
	// client is the version of the program.
	Client string `json:"client"`
	// hub is what is known of the hub; absent with --client.
	Hub *HubDocument `json:"hub,omitempty"`
	// apiServer is the version of the hub's API server; absent with --client.
	APIServer string `json:"apiServer,omitempty"`
}

func newStatusDocument(f *overview.Fleet) StatusDocument {
	document := StatusDocument{
		APIVersion: cmdutil.DocumentVersion, Kind: "Status", Time: metav1.NewTime(f.Now), Namespace: f.Scope.Namespace, NotSeen: f.Scope.Describe(), Hub: documentOfHub(f.Hub, cmp.Or(f.HubUnread, f.Lost)), StaleKinds: f.Stale,
		RemovedKinds: f.Removed, Rollouts: f.Rollouts, Kinds: append([]health.Count{}, f.Report.Counts...), Objects: append([]health.Finding{}, f.Report.Findings...),
	}
	if !f.LostSince.IsZero() {
		document.StaleSince = new(metav1.NewTime(f.LostSince))
	}
	if err := f.VerdictError(); err != nil {
		document.Problem = err.Error()
	}
	document.Healthy = document.Problem == ""
	return document
}

// documentOfHub describes a hub whose Lease was read, or was not because of unread.
func documentOfHub(state cmdutil.HubState, unread string) HubDocument {
	document := HubDocument{Healthy: state.Problem == "" && unread == "", Version: state.Version, Holder: state.Holder, Problem: state.Problem}
	if unread != "" {
		document.Problem = notLooked + unread
	}
	return document
}

func newVersionDocument() VersionDocument {
	return VersionDocument{APIVersion: cmdutil.DocumentVersion, Kind: "Version", Client: version.Here()}
}
