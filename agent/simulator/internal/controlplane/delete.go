package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

// Delete removes the files that clusters made in the data directory, and the
// directory itself if a start made it and nothing else is in it. It returns the
// paths of what it left because no cluster made it. The function does that for
// the podhost, whose directory is its argument. Deleting what is not there is no
// error. The error wraps ErrInUse if the cluster runs,
// and ErrInvalid if the directory holds other files, but no cluster.
func Delete(dataDir string, cleanPodhost func(podhostDir string) (left []string, err error)) (left []string, err error) {
	layout, err := NewLayout(dataDir)
	if err != nil {
		return nil, err
	}
	owned, err := owneddir.Open(layout.Root(), dirKind)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, owneddir.ErrNoMarker) && isEmpty(os.ReadDir(layout.Root())) {
		return nil, nil
	}
	if err != nil {
		return nil, refusedError(err, "it is left alone, because no cluster of this version was started there")
	}
	defer owned.Close()
	held, err := acquireLock(layout.lockFile(), "")
	if err != nil {
		return nil, err
	}
	defer held.releaseLock()
	var outside []string
	if info, err := os.Lstat(layout.podhostDir()); err == nil && info.IsDir() {
		podhostLeft, err := cleanPodhost(layout.podhostDir())
		if err != nil {
			return podhostLeft, fmt.Errorf("removing what the podhost left: %w", err)
		}
		for _, path := range podhostLeft {
			if !strings.HasPrefix(path, layout.Root()+"/") { // Those inside are found again.
				outside = append(outside, path)
			}
		}
	}
	layout.removeRunDir()
	left, err = owned.Remove(layout.filePatterns())
	left = append(left, outside...)
	if err != nil {
		return left, fmt.Errorf("deleting the cluster: %w", err)
	}
	return left, nil
}
