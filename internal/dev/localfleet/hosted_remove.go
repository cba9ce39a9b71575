package localfleet

import (
	"context"
	"slices"

	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// remove ends the cluster and removes its files. It can be repeated. The record goes last: what it names is removed with the fleet, too.
func (h *hosted) remove(ctx context.Context, record HostedCluster) error {
	f := h.fleet
	if err := h.stopAgent(h.current()); err != nil {
		return err
	}
	if err := h.stopPlane(h.current()); err != nil { //nolint:contextcheck // It is stopped as a whole, also when the fleet ends.
		return err
	}
	if err := process.DeleteCluster(ctx, f.binaryPath("simcluster"), hostedDir(f.options.Dir, h.name)); err != nil {
		return err
	}
	ofCluster := HostedCluster{Name: h.name}
	if err := f.removeHostedFiles(ofCluster.filePatterns()); err != nil {
		return err
	}
	for _, key := range record.groups() {
		ended, err := f.endUnusedGroup(key, record.Name)
		if err != nil {
			return err
		}
		defer ended()
	}
	// Another cluster of this name may be asked for from here on.
	f.hosting.changing.Lock()
	defer f.hosting.changing.Unlock()
	if err := f.forgetHosted(record); err != nil {
		return err
	}
	f.hosting.mutex.Lock()
	defer f.hosting.mutex.Unlock()
	delete(f.hosting.clusters, h.name)
	return errGone
}

// leaveGroup ends the group that the cluster was in before, if nobody else is in it.
func (h *hosted) leaveGroup(record HostedCluster) error {
	f := h.fleet
	ended, err := f.endUnusedGroup(record.FormerGroup, record.Name)
	if err != nil {
		return err
	}
	defer ended()
	f.hosting.changing.Lock()
	defer f.hosting.changing.Unlock()
	return f.changeHosted(func(all []HostedCluster) []HostedCluster {
		for i := range all {
			if all[i].Name == record.Name {
				all[i].FormerGroup = ""
			}
		}
		return all
	})
}

// endUnusedGroup ends a group that no other cluster than one is in, and removes its files. The group takes no clusters until ended is
// called.
func (f *Fleet) endUnusedGroup(key, cluster string) (ended func(), err error) {
	f.hosting.changing.Lock()
	isUsed := slices.ContainsFunc(f.hostedRecords(), func(other HostedCluster) bool { return other.Name != cluster && slices.Contains(other.groups(), key) })
	f.hosting.mutex.Lock()
	if !isUsed {
		f.hosting.ending[key] = true
	}
	f.hosting.mutex.Unlock()
	f.hosting.changing.Unlock()
	if isUsed {
		return func() {}, nil
	}
	ended = func() {
		f.hosting.mutex.Lock()
		defer f.hosting.mutex.Unlock()
		delete(f.hosting.ending, key)
	}
	err = f.stopGroup(key)
	if err == nil {
		err = f.removeHostedFiles(groupFiles(key))
	}
	if err != nil {
		ended()
		return nil, err
	}
	return ended, nil
}
