package localfleet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

const (
	// emulatedMinors is how many minors before their own Kubernetes' programs emulate, oldestMinor the first that they do.
	emulatedMinors = 3
	oldestMinor    = 31
)

// Addition is what simulated clusters that do not run yet are going to need.
type Addition struct {
	// Clusters is their number, and Groups that of the groups among them that do not run yet. Isolation is what they share.
	Clusters, Groups int
	Isolation        Isolation
	// Reserved is how many bytes each simulated cluster that asks for memory asks for, also of those that run.
	Reserved []int64
}

// programVersion is the Kubernetes version of the programs.
func (f *Fleet) programVersion() (*version.Version, error) {
	ready, err := f.Hub.Ready()
	if err != nil {
		return nil, err
	}
	own, err := version.ParseSemantic(ready.Version)
	if err != nil {
		return nil, fmt.Errorf("reading the version of the control planes: %w", err)
	}
	return own, nil
}

// supportedVersions are those that control planes can have, in their order.
func supportedVersions(own *version.Version) []string {
	var all []string
	for minor := max(oldestMinor, int(own.Minor())-emulatedMinors); minor <= int(own.Minor()); minor++ {
		all = append(all, fmt.Sprintf("v%d.%d", own.Major(), minor))
	}
	return append(all, "v"+own.String())
}

// emulatedMinor is what --emulated-version gets for a version; empty for that of the programs.
func emulatedMinor(wanted string, own *version.Version) (string, error) {
	supported := supportedVersions(own)
	if wanted != "" && !slices.Contains(supported, wanted) {
		return "", localclusters.VersionError(wanted, supported)
	}
	if wanted == "" || slices.Contains(supported[len(supported)-2:], wanted) {
		return "", nil
	}
	return wanted[1:], nil
}

// minorOf is the minor of a version. An empty one is that of the programs.
func minorOf(text string, own *version.Version) uint {
	parsed, err := version.ParseGeneric(cmp.Or(text, own.String()))
	if err != nil {
		return own.Minor()
	}
	return parsed.Minor()
}

// isLower reports whether a version is of an earlier minor than another.
func isLower(a, b string, own *version.Version) bool { return minorOf(a, own) < minorOf(b, own) }

// skipsMinor reports whether there is a minor between two versions.
func skipsMinor(from, to string, own *version.Version) bool {
	return minorOf(to, own) > minorOf(from, own)+1
}

// decideRecord is what is to be recorded for a cluster that is asked for. before is its record, if it has one.
func decideRecord(name string, desired localclusters.Desired, before *HostedCluster, own *version.Version) (HostedCluster, error) {
	if _, err := emulatedMinor(desired.ControlPlaneVersion, own); err != nil {
		return HostedCluster{}, err
	}
	if before == nil {
		return HostedCluster{Name: name, UID: desired.UID, ControlPlaneVersion: desired.ControlPlaneVersion, Resources: desired.Resources}, nil
	}
	switch {
	case before.UID != desired.UID:
		return HostedCluster{}, takenError(*before)
	case before.Removing:
		return HostedCluster{}, &localclusters.Problem{Reason: localclusters.BeingRemoved, Field: "uid", Message: fmt.Sprintf("cluster %s is being removed: ask again when it is gone, with the UID of the new SimulatedCluster", name)}
	case isLower(desired.ControlPlaneVersion, before.ControlPlaneVersion, own):
		return HostedCluster{}, &localclusters.Problem{
			Reason: localclusters.Downgrade, Field: "controlPlaneVersion",
			Message: fmt.Sprintf("a control plane cannot go back from %s to %s: create another SimulatedCluster", cmp.Or(before.ControlPlaneVersion, "v"+own.String()), cmp.Or(desired.ControlPlaneVersion, "v"+own.String())),
		}
	case skipsMinor(before.ControlPlaneVersion, desired.ControlPlaneVersion, own):
		return HostedCluster{}, &localclusters.Problem{
			Reason: localclusters.Changing, Field: "controlPlaneVersion",
			Message: fmt.Sprintf("an upgrade skips no minor: from %s ask for the next one first", cmp.Or(before.ControlPlaneVersion, "v"+own.String())),
		}
	case before.FormerGroup != "" && before.ControlPlaneVersion != desired.ControlPlaneVersion:
		return HostedCluster{}, &localclusters.Problem{Reason: localclusters.Changing, Field: "controlPlaneVersion", Message: fmt.Sprintf("cluster %s is still on its way to %s: ask again when it is Running", name, before.ControlPlaneVersion)}
	}
	after := *before
	after.ControlPlaneVersion, after.Resources = desired.ControlPlaneVersion, desired.Resources
	return after, nil
}

func takenError(record HostedCluster) error {
	return &localclusters.Problem{
		Reason: localclusters.NameTaken, Field: "uid",
		Message: fmt.Sprintf("a cluster %s with UID %s is here: delete it first, or choose another name", record.Name, record.UID),
	}
}

// groupFor is the first group of a minor that has room for one more; a new one if none has. minors are those of the groups, and ending
// the groups that take no more clusters.
func groupFor(records []HostedCluster, minor string, minors map[string]string, ending map[string]bool) string {
	used := map[string]int{}
	for _, record := range records {
		for _, key := range record.groups() {
			used[key]++
		}
	}
	for number := 1; ; number++ {
		key := fmt.Sprintf("h%d", number)
		of, known := minors[key]
		if count := used[key]; !ending[key] && (count == 0 || count < ClustersPerGroup && known && of == minor) {
			return key
		}
	}
}

// storeAccess leaves what the agent of a hosted cluster starts with, and reports whether any of it is new to the agent. A credential
// that is valid stays: the agent renews it itself.
func (f *Fleet) storeAccess(name string, desired localclusters.Desired, now time.Time) (changed bool, err error) {
	member := &Member{Name: name}
	kubeconfig, err := joining.Server{URL: desired.Hub.Server, CA: desired.Hub.CA, TLSName: desired.Hub.TLSName}.Kubeconfig(name, "")
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(f.CredentialDir(member), 0o700); err != nil {
		return false, fmt.Errorf("making the directory of agent %s: %w", name, err)
	}
	stored, err := os.ReadFile(f.bootstrapKubeconfig(member))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading the bootstrap kubeconfig of agent %s: %w", name, err)
	}
	if string(stored) != string(kubeconfig) {
		changed = true
		if err := atomicfile.Write(f.bootstrapKubeconfig(member), kubeconfig, 0o600); err != nil {
			return false, err
		}
	}
	if expires := f.credentialExpiry(name); expires != nil && expires.After(now) || len(desired.Certificate) == 0 {
		return changed, nil
	}
	// The agent's own order: the certificate that is there always is for one of the keys that are there.
	for _, file := range []struct {
		name    string
		content []byte
	}{{"pending.key", desired.Key}, {"tls.crt", desired.Certificate}, {"tls.key", desired.Key}} {
		if err := atomicfile.Write(filepath.Join(f.CredentialDir(member), file.name), file.content, 0o600); err != nil {
			return false, err
		}
	}
	if err := os.Remove(filepath.Join(f.CredentialDir(member), "pending.key")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("storing the credential of agent %s: %w", name, err)
	}
	return true, nil
}

// credentialExpiry is when the credential of the agent of a hosted cluster expires; nil if it has none of any use.
func (f *Fleet) credentialExpiry(name string) *time.Time {
	dir := f.CredentialDir(&Member{Name: name})
	certificate, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	if err != nil {
		return nil
	}
	for _, file := range []string{"tls.key", "pending.key"} {
		key, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		if leaf, err := localclusters.ParseCredential(name, certificate, key); err == nil {
			return &leaf.NotAfter
		}
	}
	return nil
}
