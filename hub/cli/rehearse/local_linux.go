package rehearse

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/local/preflight"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

// localFleet is the fleet on this machine that the hub belongs to.
type localFleet struct {
	localfleet.Report
	// kubeconfig is that of the simulated cluster; empty until there is one. Its path stays, whatever happens to the control plane.
	kubeconfig string
}

// defaultLocalDir is that of "kubectl hollow local".
func defaultLocalDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("hollowfleet-local-%d", os.Getuid()))
}

// findLocalFleet returns the fleet in dir if its hub is that at server; else nil.
func findLocalFleet(dir, server string) *localFleet {
	report, err := localfleet.ReadReport(dir)
	if err != nil || report.Hub.Server == "" || report.Hub.Server != server {
		return nil
	}
	return &localFleet{Report: report}
}

// kubeconfigOf is the administrator's kubeconfig of a simulated cluster, as it is now; empty if there is none yet.
func (f *localFleet) kubeconfigOf(name string) string {
	if f.kubeconfig != "" {
		return f.kubeconfig
	}
	report, err := localfleet.ReadReport(f.Dir)
	if err != nil {
		return ""
	}
	for _, plane := range report.Clusters {
		if plane.Name == name && plane.UID != "" {
			f.kubeconfig = plane.Kubeconfig
		}
	}
	return f.kubeconfig
}

// checkVersions refuses what the programs of the fleet cannot be.
func (f *localFleet) checkVersions(v shape.Versions) error {
	if f == nil || !isNewer(v.To, f.Hub.Version) {
		return nil
	}
	field := shape.ControlPlaneVersion
	if isNewer(v.From, f.Hub.Version) {
		field = shape.SourceVersion
	}
	return cmdutil.Refusal("%s: %s is newer than the programs of the local fleet (%s): a later release of this program is needed", field, v.To, f.Hub.Version)
}

// checkRoom compares what a cluster with so many Nodes needs with what the machine has left. It counts a hub too, and so is on the safe side.
func (f *localFleet) checkRoom(nodes int, ignored []string) (warnings []string, err error) {
	checked := preflight.Check(preflight.Fleet{
		Clusters: 1, Machines: nodes, NodesPerPack: cmp.Or(f.NodesPerPack, 1), ClustersPerGroup: localfleet.ClustersPerGroup, Shared: f.Isolation == localfleet.IsolationShared,
	}, preflight.ThisMachine.Available(f.Dir), ignored...)
	for _, problem := range checked.Warnings {
		warnings = append(warnings, problem.Message)
	}
	if len(checked.Errors) > 0 {
		return warnings, cmdutil.Refusal("the rehearsal of %d Nodes does not fit on this machine: %s\nTo start it all the same: --ignore-preflight-errors=%s", nodes, preflight.Lines(checked.Errors), checked.Errors[0].Check)
	}
	return warnings, nil
}
