package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Delete removes everything that clusters made in the data directory, and the
// directory itself if nothing else is in it. The function removes what the
// podhost has outside of its own directory, which is its argument. Deleting
// what is not there is no error. The error wraps ErrInUse if the cluster runs.
func Delete(dataDir string, cleanPodhost func(podhostDir string) error) error {
	layout, err := NewLayout(dataDir)
	if err != nil {
		return err
	}
	// Without the lock file it is not one of our directories.
	if _, err := os.Stat(layout.lockFile()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	held, err := acquireLock(layout.lockFile())
	if err != nil {
		return err
	}
	defer held.release()
	if _, err := os.Stat(layout.podhostDir()); err == nil {
		if err := cleanPodhost(layout.podhostDir()); err != nil {
			return fmt.Errorf("removing what the podhost left: %w", err)
		}
	}
	layout.removeRunDir()
	entries := []string{
		layout.ReadyFile(), layout.stateFile(), layout.etcdDir(), layout.podhostDir(), layout.pki(""),
		filepath.Dir(layout.AdminKubeconfig()), filepath.Dir(layout.LogFile("")), layout.lockFile(),
	}
	for _, entry := range entries {
		if err := os.RemoveAll(entry); err != nil {
			return fmt.Errorf("deleting the cluster: %w", err)
		}
	}
	if err := os.Remove(layout.Root()); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting the cluster: %w", err)
	}
	return nil
}
