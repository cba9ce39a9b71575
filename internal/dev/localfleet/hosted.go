package localfleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// HostedCluster is the record of a simulated cluster that the keeper runs for the agent of the host.
type HostedCluster struct {
	Name string `json:"name"`
	// UID is that of the SimulatedCluster.
	UID string `json:"uid"`
	// ControlPlaneVersion is the one that was asked for; empty for that of the programs.
	ControlPlaneVersion string `json:"controlPlaneVersion,omitempty"`
	// Resources are those that were asked for.
	Resources localclusters.Resources `json:"resources,omitzero"`
	// Group is the name of its group, without groupPrefix; empty for processes of its own. FormerGroup is the one that it leaves.
	Group       string `json:"group,omitempty"`
	FormerGroup string `json:"formerGroup,omitempty"`
	// Removing is that it is to be removed. It stays so.
	Removing bool `json:"removing,omitempty"`
}

// hostedGroupName is the name of a group of hosted clusters.
var hostedGroupName = regexp.MustCompile(`^h[0-9]{1,6}$`)

// hostedDir is the data directory of a hosted cluster: its name is any, and might be that of another directory of the fleet.
func hostedDir(dir, name string) string { return filepath.Join(dir, "hosted", name) }

// groups are those that the cluster has something in.
func (h HostedCluster) groups() []string {
	return slices.DeleteFunc([]string{h.Group, h.FormerGroup}, func(key string) bool { return key == "" })
}

// filePatterns are the files of the cluster and its groups, as patterns. What its control plane makes is removed by simcluster.
func (h HostedCluster) filePatterns() []string {
	files := append(clusterFiles(h.Name), "hosted/"+h.Name+"/")
	for _, key := range h.groups() {
		files = append(files, groupFiles(key)...)
	}
	return files
}

// check refuses a record whose names lead elsewhere.
func (h HostedCluster) check() error {
	if problems := validation.IsDNS1123Label(h.Name); len(problems) > 0 {
		return fmt.Errorf("hosted: %q is not a name: %s", h.Name, problems[0])
	}
	for _, key := range h.groups() {
		if !hostedGroupName.MatchString(key) {
			return fmt.Errorf("hosted: %q is not the name of a group", key)
		}
	}
	return nil
}

// deleteHosted removes what the control planes of hosted clusters have made.
func (s State) deleteHosted(ctx context.Context, dir string) error {
	for _, hosted := range s.Hosted {
		if err := hosted.check(); err != nil {
			return fmt.Errorf("reading the state of the fleet in %s: %w", dir, err)
		}
		if err := process.DeleteCluster(ctx, s.Simcluster, hostedDir(dir, hosted.Name)); err != nil {
			return err
		}
	}
	return nil
}

// groupKeys are the names of the groups that there may be, those of the fleet's own clusters first.
func (s State) groupKeys() []string {
	var keys []string
	for number := range max(len(s.Clusters)-1, 0) {
		keys = append(keys, strconv.Itoa(number+1))
	}
	var hosted []string
	for _, record := range s.Hosted {
		if record.check() == nil {
			hosted = append(hosted, record.groups()...)
		}
	}
	slices.SortFunc(hosted, func(a, b string) int { return groupNumber(a) - groupNumber(b) })
	return append(keys, slices.Compact(hosted)...)
}

func groupNumber(key string) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(key, "h"))
	return number
}

// isOwn reports whether a name is one of the fleet's own clusters'.
func (f *Fleet) isOwn(name string) bool {
	f.recording.Lock()
	defer f.recording.Unlock()
	return slices.Contains(f.state.Clusters, name) || name == HostName
}

// hostedRecord returns the record of a hosted cluster.
func (f *Fleet) hostedRecord(name string) (HostedCluster, bool) {
	f.recording.Lock()
	defer f.recording.Unlock()
	at := slices.IndexFunc(f.state.Hosted, func(h HostedCluster) bool { return h.Name == name })
	if at < 0 {
		return HostedCluster{}, false
	}
	return f.state.Hosted[at], true
}

// hostedRecords returns all of them in the order of their names.
func (f *Fleet) hostedRecords() []HostedCluster {
	f.recording.Lock()
	defer f.recording.Unlock()
	return slices.Clone(f.state.Hosted)
}

// changeHosted changes the records of hosted clusters by change, and writes them. When they cannot be written, nothing is changed.
func (f *Fleet) changeHosted(change func([]HostedCluster) []HostedCluster) error {
	f.recording.Lock()
	defer f.recording.Unlock()
	before := f.state.Hosted
	f.state.Hosted = change(slices.Clone(before))
	slices.SortFunc(f.state.Hosted, func(a, b HostedCluster) int { return strings.Compare(a.Name, b.Name) })
	if err := f.writeState(); err != nil {
		f.state.Hosted = before
		return err
	}
	return nil
}

// recordHosted records a hosted cluster, or replaces its record.
func (f *Fleet) recordHosted(record HostedCluster) error {
	return f.changeHosted(func(all []HostedCluster) []HostedCluster {
		all = slices.DeleteFunc(all, func(h HostedCluster) bool { return h.Name == record.Name })
		return append(all, record)
	})
}

// forgetHosted drops the record of a hosted cluster of which nothing is left, with those of its processes that have ended.
func (f *Fleet) forgetHosted(record HostedCluster) error {
	names := []string{agentName(record.Name), clusterPrefix + record.Name}
	for _, key := range record.groups() {
		names = append(names, groupPrefix+key)
	}
	return f.changeHosted(func(all []HostedCluster) []HostedCluster {
		f.state.Processes = slices.DeleteFunc(f.state.Processes, func(p process.Identity) bool { return slices.Contains(names, p.Name) && !p.Alive() })
		delete(f.state.Endpoints, names[0])
		return slices.DeleteFunc(all, func(h HostedCluster) bool { return h.Name == record.Name })
	})
}

// removeHostedFiles removes the files that match the patterns, and no others.
func (f *Fleet) removeHostedFiles(patterns []string) error {
	f.hosting.removing.Lock()
	defer f.hosting.removing.Unlock()
	owned, err := f.openDirectory()
	if err != nil {
		return err
	}
	defer owned.Close()
	return owned.RemoveEntries(patterns)
}

// startHost lets the hub's own cluster join as the host, and starts its agent there.
func (f *Fleet) startHost(ctx context.Context) error {
	if !f.options.Kept {
		return errors.New("starting the host of simulated clusters: nobody would run them, because the fleet has no keeper")
	}
	f.Host.Cluster, f.Host.Client = f.Hub, f.HubClient
	if err := grantAgent(ctx, f.HubClient); err != nil {
		return err
	}
	if err := f.joinOnce(ctx, f.Host); err != nil {
		return err
	}
	return f.StartAgent(ctx, f.Host)
}
