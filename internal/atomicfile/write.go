// Package atomicfile replaces files in one step: a reader sees the old or the new content, also after a crash of the machine.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write replaces the file at path, or makes it. It has that mode whatever the umask is. A process that is killed may leave a file
// whose name starts with TemporaryPrefix.
func Write(path string, content []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	// os.CreateTemp makes files that only their owner can read.
	temporary, err := os.CreateTemp(dir, TemporaryPrefix(path))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(temporary.Name())))
	}
	if err := syncDirectory(dir); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// TemporaryPrefix is how the name of a file starts that is to become the one at path.
func TemporaryPrefix(path string) string { return "." + filepath.Base(path) + "-" }

// syncDirectory makes a rename last through a crash of the machine. Windows opens no directory for that.
func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
