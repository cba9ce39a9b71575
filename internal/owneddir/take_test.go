package owneddir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnsafeDirectoriesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, dir string)
		says string
	}{
		"a link":                {func(t *testing.T, dir string) { must(t, os.Symlink(t.TempDir(), dir)) }, "symbolic link"},
		"writable for everyone": {func(t *testing.T, dir string) { must(t, errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777))) }, "every user may write"},
		"another kind": {func(t *testing.T, dir string) {
			d, err := Take(dir, "simcluster", 0o755)
			must(t, err)
			d.Close()
		}, `of a "simcluster", not of a fleet`},
		"another version": {func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.WriteFile(filepath.Join(dir, MarkerName), []byte(`{"kind":"fleet","version":9}`), 0o600))
		}, "version 9"},
		"no marker at all": {func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.WriteFile(filepath.Join(dir, MarkerName), []byte(`hello`), 0o600))
		}, "reading " + MarkerName},
		// Edge case: A copied directory named the original's processes.
		"a copy": {func(t *testing.T, dir string) {
			original := filepath.Join(t.TempDir(), "original")
			d, err := Take(original, kind, 0o755)
			must(t, err)
			d.Close()
			must(t, os.CopyFS(dir, os.DirFS(original)))
		}, "it is a copy"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "fleet")
			test.make(t, dir)
			_, takeErr := Take(dir, kind, 0o755)
			_, openErr := Open(dir, kind)
			for _, err := range []error{takeErr, openErr} {
				if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v, want ErrUnsafe with %q", err, test.says)
				}
			}
		})
	}
}

func TestAnotherUsersDirectoryIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	dir := t.TempDir()
	must(t, os.Chown(dir, 12345, 12345))
	if _, err := Take(dir, kind, 0o755); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "user 12345") {
		t.Errorf("got %v, want ErrUnsafe", err)
	}
}

func TestACopyBecomesADirectoryOfItsOwn(t *testing.T) {
	original, dir := filepath.Join(t.TempDir(), "original"), filepath.Join(t.TempDir(), "copy")
	first := taken(t, original)
	first.Close()
	must(t, os.CopyFS(dir, os.DirFS(original)))
	d, err := TakeOrOpen(dir, kind, 0o755)
	must(t, err)
	defer d.Close()
	if d.ID() == first.ID() {
		t.Error("the copy has the ID of the original")
	}
	remove(t, d)
	if !exists(dir) {
		t.Error("a directory that another program made was removed")
	}
}

// Take can be killed after it has made the marker and before it has filled it in.
func TestATakeThatWasKilledIsRepeatedOrRemoved(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, MarkerName), nil, 0o600))
	d, err := Open(dir, kind)
	must(t, err)
	d.Close()
	taken(t, dir).Close()

	dir = t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, MarkerName), nil, 0o600))
	d, err = Open(dir, kind)
	must(t, err)
	remove(t, d)
	d.Close()
	if exists(filepath.Join(dir, MarkerName)) {
		t.Error("the marker is left")
	}

	must(t, os.WriteFile(filepath.Join(dir, MarkerName), nil, 0o600))
	write(t, filepath.Join(dir, "state.json"))
	if _, err := Open(dir, kind); !errors.Is(err, ErrUnsafe) {
		t.Errorf("with other files: %v, want ErrUnsafe", err)
	}
	if _, err := Take(dir, kind, 0o755); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("with other files: %v, want ErrNotEmpty", err)
	}
}

// Take was killed before it wrote the marker.
// Edge case: A directory of a killed process could not be removed.
func TestAnEmptyMarkerIsFilledBeforeTheDirectoryIsUsed(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, MarkerName), nil, 0o600))
	d, err := TakeOrOpen(dir, kind, 0o755)
	must(t, err)
	write(t, filepath.Join(dir, "state.json"))
	d.Close()
	again, err := Open(dir, kind)
	must(t, err)
	defer again.Close()
	if left := remove(t, again); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
