package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

// dirKind is what a data directory is marked as.
const dirKind = "simcluster"

// takeRoot marks a data directory that is missing or empty, and accepts one that
// was marked before. Any other is refused before anything is written.
func (l Layout) takeRoot() error {
	owned, err := owneddir.TakeOrOpen(l.root, dirKind, 0o700)
	if err != nil {
		return refusedError(err, "choose a directory that is empty or does not exist yet")
	}
	owned.Close()
	return nil
}

// refusedError gives an error about the data directory its exit code.
func refusedError(err error, remedy string) error {
	switch {
	case errors.Is(err, owneddir.ErrBusy):
		return fmt.Errorf("%w: --data-dir: %w", ErrInUse, err)
	case errors.Is(err, owneddir.ErrNotEmpty), errors.Is(err, owneddir.ErrUnsafe), errors.Is(err, owneddir.ErrNoMarker):
		return fmt.Errorf("%w: --data-dir: %w; %s", ErrInvalid, err, remedy)
	}
	return fmt.Errorf("--data-dir: %w", err)
}

// filePatterns are what clusters make in a data directory, as patterns of owneddir.
func (l Layout) filePatterns() []string {
	files := []string{"ready.json", "cluster.json", "run-dir", "lock", "pki/sa.key", "pki/sa.pub", "podhost/pods-directory"}
	for _, pair := range []string{
		"ca", APIServer, ControllerManager, Scheduler, kubeletClient, frontProxyCA, frontProxyClient,
		"admin-client", ControllerManager + "-client", Scheduler + "-client", Podhost + "-client",
	} {
		files = append(files, "pki/"+pair+".crt", "pki/"+pair+".key")
	}
	for _, user := range []string{"admin", ControllerManager, Scheduler, Podhost} {
		files = append(files, "kubeconfigs/"+user+".conf")
	}
	// What is being written has such a name, see package atomicfile.
	for _, file := range files {
		at := strings.LastIndexByte(file, '/') + 1
		files = append(files, file[:at]+"."+file[at:]+"-[0-9]*")
	}
	for _, component := range AllComponents {
		files = append(files, "logs/"+component+".log", "logs/"+component+".log.1")
	}
	for _, socket := range runDirSockets {
		files = append(files, "run/"+socket)
	}
	hex := strings.Repeat("[0-9a-f]", 16)
	files = append(files,
		"etcd/member/snap/db", "etcd/member/snap/db.tmp.*", "etcd/member/snap/"+hex+".snap.db",
		"etcd/member/snap/"+hex+"-"+hex+".snap", "etcd/member/snap/"+hex+"-"+hex+".snap.broken", "etcd/member/snap/tmp[0-9]*",
		"etcd/member/wal/"+hex+"-"+hex+".wal", "etcd/member/wal/"+hex+"-"+hex+".wal.broken", "etcd/member/wal/[0-9]*.tmp",
		"etcd/member/wal.tmp/"+hex+"-"+hex+".wal", "etcd/member/wal.tmp/[0-9]*.tmp", "etcd/.touch", "etcd/member/.touch",
	)
	// The podhost has removed what is in its own three.
	return append(files, "run/", "etcd/member/snap/", "podhost/pods/", "podhost/logs/", "podhost/packs/")
}

// isEmpty reports whether nothing is in the data directory, or there is none.
func isEmpty(names []fs.DirEntry, err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0
}
