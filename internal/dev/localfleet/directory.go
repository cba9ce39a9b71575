package localfleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

// dirKind is what a fleet's directory is marked as.
const dirKind = "fleet"

var (
	// ErrNoFleet is wrapped when a directory holds no fleet, or is missing.
	ErrNoFleet = errors.New("there is no fleet")
	// ErrUnusable is wrapped when a directory holds other files, or a fleet that this version cannot end.
	ErrUnusable = errors.New("this directory cannot be used for a fleet")
	// ErrTaken is wrapped when a directory holds a fleet already, or what is left of one.
	ErrTaken = errors.New("there is a fleet already")
)

// Take marks dir as a fleet's, for Options.DirID. It must be missing or empty. In the end it is removed itself if it is
// empty then, and was missing or is temporary. The error wraps ErrTaken if a fleet is there.
func Take(dir string, temporary bool) (id string, err error) {
	owned, err := takeDirectory(dir, temporary)
	if err != nil {
		return "", err
	}
	defer owned.Close()
	return owned.ID(), nil
}

func takeDirectory(dir string, temporary bool) (*owneddir.Directory, error) {
	if outer := fleetAround(dir); outer != "" {
		return nil, fmt.Errorf("%w: %s is inside the directory of the fleet in %s, which would be left behind when that fleet ends", ErrUnusable, dir, outer)
	}
	owned, err := owneddir.Take(dir, dirKind, 0o755)
	switch {
	case errors.Is(err, owneddir.ErrTaken):
		return nil, fmt.Errorf("%w in %s", ErrTaken, dir)
	case errors.Is(err, owneddir.ErrNotEmpty):
		if state, stateErr := ReadState(dir); stateErr == nil {
			return nil, unmarkedError(dir, state)
		}
	}
	if err != nil {
		return nil, unusableError(err)
	}
	if temporary {
		if err := owned.CountAsMade(); err != nil {
			owned.Close()
			return nil, err
		}
	}
	return owned, nil
}

// fleetAround returns the directory of a fleet that dir is inside of, symbolic links followed; empty if there is none.
func fleetAround(dir string) string {
	// What does not exist yet is no link.
	missing := ""
	for {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			dir = filepath.Join(resolved, missing)
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		missing, dir = filepath.Join(filepath.Base(dir), missing), parent
	}
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		if Check(parent) == nil {
			return parent
		}
	}
	return ""
}

// unusableError makes what a user can only remedy with another directory an ErrUnusable.
func unusableError(err error) error {
	for _, known := range []error{owneddir.ErrNotEmpty, owneddir.ErrUnsafe, owneddir.ErrBusy} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %w", ErrUnusable, err)
		}
	}
	return err
}

// Check returns nil if dir is a fleet's directory. The error wraps ErrNoFleet if it is not, and says so of one that was
// made before such directories were marked.
func Check(dir string) error {
	owned, err := openDirectory(dir)
	if err == nil {
		owned.Close()
	}
	return err
}

func openDirectory(dir string) (*owneddir.Directory, error) {
	owned, err := owneddir.Open(dir, dirKind)
	if errors.Is(err, owneddir.ErrNoMarker) {
		if state, stateErr := ReadState(dir); stateErr == nil {
			return nil, unmarkedError(dir, state)
		}
	}
	if errors.Is(err, owneddir.ErrNoMarker) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNoFleet, dir)
	}
	return owned, unusableError(err)
}

// unmarkedError is the error for a fleet of a version that did not mark its directory.
func unmarkedError(dir string, state State) error {
	remedy := "its processes have ended: see what is in the directory, and remove it yourself"
	if state.Keeper != nil && state.Keeper.Alive() {
		remedy = fmt.Sprintf("move files of your own out of the directory, then end the fleet with \"kill %d\", after which that version removes the whole directory", state.Keeper.PID)
	}
	return fmt.Errorf("%w: the fleet in %s was started by an earlier version, which did not mark the files that it made, so this one removes nothing: %s", ErrUnusable, dir, remedy)
}

// claimDirectory takes the fleet's directory, or continues with one that the caller has taken, and records the fleet there.
func (f *Fleet) claimDirectory() error {
	if f.options.DirID == "" {
		id, err := Take(f.options.Dir, false)
		if err != nil {
			return err
		}
		f.options.DirID = id
	}
	owned, err := f.openDirectory()
	if err != nil {
		return err
	}
	defer owned.Close()
	return f.writeState()
}

// openDirectory opens the fleet's directory, if it is still the one that was taken.
func (f *Fleet) openDirectory() (*owneddir.Directory, error) {
	owned, err := openDirectory(f.options.Dir)
	if err == nil && owned.ID() != f.options.DirID {
		owned.Close()
		return nil, fmt.Errorf("%w that was taken for this start in %s: another fleet is there now", ErrNoFleet, f.options.Dir)
	}
	return owned, err
}

func (f *Fleet) removeFiles(ctx context.Context) ([]string, error) {
	owned, err := f.openDirectory()
	if errors.Is(err, ErrNoFleet) || errors.Is(err, owneddir.ErrBusy) {
		return nil, nil // Another process has removed the files, or waits until the processes have ended.
	}
	if err != nil {
		return nil, err
	}
	defer owned.Close()
	return f.state.removeFiles(ctx, owned)
}

// removeFiles removes the files of a fleet whose processes have ended.
func (s State) removeFiles(ctx context.Context, owned *owneddir.Directory) ([]string, error) {
	for _, name := range s.Clusters {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, fmt.Errorf("reading the state of the fleet in %s: clusters: %q is not a name: %s", owned.Path(), name, problems[0])
		}
		if err := process.DeleteCluster(ctx, s.Simcluster, filepath.Join(owned.Path(), name)); err != nil {
			return nil, err
		}
	}
	if err := s.deleteHosted(ctx, owned.Path()); err != nil {
		return nil, err
	}
	return owned.Remove(s.filePatterns())
}

// credentialFiles are what an agent keeps in its credential directory; each is first written under another name.
var credentialFiles = []string{"lock", "holder", "pending.key", "tls.crt", "tls.key", "token", "kubeconfig"}

// kwokFiles are what an agent makes for kwok's controller, and the controller's log.
var kwokFiles = []string{"kwok.yaml", "kubeconfig", "token", "kwok.log", "kwok.log.1"}

// filePatterns are the files that a fleet makes, as patterns. What its control planes make is removed by simcluster.
func (s State) filePatterns() []string {
	files := []string{stateFile, atomicfile.TemporaryPrefix(stateFile) + "*", earlierStateFile, startFile, atomicfile.TemporaryPrefix(startFile) + "*", ConfigFile, atomicfile.TemporaryPrefix(ConfigFile) + "*", "logs/" + KeeperName + ".log", "logs/hub.log", localclusters.SocketName}
	if s.Isolation == IsolationShared {
		for number := range (len(s.Clusters)-1)/ClustersPerGroup + 1 {
			files = append(files, groupFiles(strconv.Itoa(number+1))...)
		}
	}
	for _, name := range s.Clusters {
		files = append(files, name+"/")
		files = append(files, clusterFiles(name)...)
	}
	if s.Host != "" {
		files = append(files, clusterFiles(s.Host)...)
	}
	for _, hosted := range s.Hosted {
		files = append(files, hosted.filePatterns()...)
	}
	return append(files, monitoringPatterns()...)
}

// clusterFiles are what there is of a cluster beside its control plane, as patterns.
func clusterFiles(name string) []string {
	agent := "agents/" + name + "/"
	files := []string{"logs/cluster-" + name + ".log", "logs/agent-" + name + ".log"}
	for _, file := range []string{bootstrapFile, credentialDir + "/"} {
		files = append(files, agent+file)
	}
	files = append(files, agent+atomicfile.TemporaryPrefix(bootstrapFile)+"*")
	for _, file := range credentialFiles {
		files = append(files, agent+credentialDir+"/"+file, agent+credentialDir+"/"+atomicfile.TemporaryPrefix(file)+"*")
	}
	files = append(files, agent+kwokDir+"/")
	for _, file := range kwokFiles {
		files = append(files, agent+kwokDir+"/"+file, agent+kwokDir+"/"+atomicfile.TemporaryPrefix(file)+"*")
	}
	for _, user := range []string{hubUser, agentUser} {
		kubeconfig := "kubeconfigs/" + name + "/" + user
		files = append(files, kubeconfig+kubeconfigSuffix)
		for _, server := range []Server{HubServer, TargetServer, HostServer} {
			files = append(files, routedPath(kubeconfig+kubeconfigSuffix, server))
		}
	}
	return files
}
