//go:build linux

package local

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// depthOfKubeconfig is how many directories above its kubeconfig the directory of a fleet is.
const depthOfKubeconfig = 3

// DescribeKeeper says what is wrong with the keeper of the fleet on this machine whose hub is at server, and what helps. It is empty if
// nothing is, or if the hub is elsewhere. kubeconfigs are the files by which the hub was found.
func DescribeKeeper(server string, kubeconfigs []string) string {
	for _, dir := range fleetDirs(kubeconfigs) {
		state, err := localfleet.ReadState(dir)
		if err != nil || state.Keeper == nil || !isHubOf(dir, server) {
			continue
		}
		what := fmt.Sprintf("the keeper of the local fleet in %s, process %d,", dir, state.Keeper.PID)
		log := localfleet.LogFile(dir, localfleet.KeeperName)
		switch {
		case state.Keeper.Alive() && state.Keeper.IsSuspended():
			return fmt.Sprintf("%s does not answer (its log: %s): let it continue with kill -CONT %d", what, log, state.Keeper.PID)
		case state.Keeper.Alive():
			return ""
		case len(state.Resumable()) > 0:
			return fmt.Sprintf("%s has ended, and the hub, control planes and agents with it (its log: %s): start the fleet again with its data with %s, or end it with %s",
				what, log, writtenCommand("up", dir), writtenCommand("down", dir))
		}
		return fmt.Sprintf("%s has ended, and the hub, control planes and agents with it (its log: %s): end the fleet with %s, and start another with %s",
			what, log, writtenCommand("down", dir), writtenCommand("up", dir))
	}
	return ""
}

// fleetDirs are where the fleet of a kubeconfig may be: above that, or where fleets are unless a user says otherwise.
func fleetDirs(kubeconfigs []string) []string {
	var dirs []string
	for _, path := range kubeconfigs {
		dir, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		for range depthOfKubeconfig {
			dir = filepath.Dir(dir)
		}
		dirs = append(dirs, dir)
	}
	return append(dirs, defaultDir())
}

// isHubOf reports whether the hub of the fleet in dir is at server. Its kubeconfig stays when its control plane ends.
func isHubOf(dir, server string) bool {
	kubeconfig, err := clientcmd.LoadFromFile(localfleet.HubKubeconfig(dir))
	if err != nil {
		return false
	}
	for _, cluster := range kubeconfig.Clusters {
		if cluster.Server == server {
			return true
		}
	}
	return false
}

// FindFleet is what is known of the fleet on this machine whose hub is at server; nil if there is none. kubeconfigs are the files by which
// the hub was found.
func FindFleet(server string, kubeconfigs []string) *cmdutil.LocalFleet {
	for _, dir := range fleetDirs(kubeconfigs) {
		if !isHubOf(dir, server) {
			continue
		}
		report, err := localfleet.ReadReport(dir)
		if err != nil {
			continue
		}
		found := &cmdutil.LocalFleet{Kubeconfigs: map[string]string{}}
		for _, plane := range report.Clusters {
			found.Kubeconfigs[plane.Name] = plane.Kubeconfig
		}
		for _, process := range report.Processes {
			found.Processes = append(found.Processes, cmdutil.LocalProcess{Name: process.Name, Log: process.Log, Metrics: process.Metrics})
		}
		return found
	}
	return nil
}
