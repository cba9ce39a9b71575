package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// hidden returns a data directory that other users cannot reach.
func hidden(t *testing.T) string {
	t.Helper()
	dataDir := filepath.Join(t.TempDir(), "hidden", "data")
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dataDir), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Clean(dataDir) })
	return dataDir
}

func base(t *testing.T, dataDir string, switchesUsers bool) string {
	t.Helper()
	path, err := Base(dataDir, switchesUsers)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func keep(t *testing.T, directory string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(directory, "uid"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestBaseIsInTheDataDirectoryIfItCanBe(t *testing.T) {
	dataDir := hidden(t)
	if got := base(t, dataDir, false); got != filepath.Join(dataDir, insideName) {
		t.Errorf("for a podhost of one user it is %s", got)
	}
	open := t.TempDir()
	if got := base(t, open, true); reachable(open) && got != filepath.Join(open, insideName) {
		t.Errorf("in a directory that everybody can reach it is %s", got)
	}
}

func TestBaseOutside(t *testing.T) {
	dataDir := hidden(t)
	outside := base(t, dataDir, true)
	if !reachable(outside) {
		t.Fatalf("other users cannot reach %s", outside)
	}
	keep(t, outside)
	if again := base(t, dataDir, true); again != outside {
		t.Errorf("after a podhost was killed it is %s, want %s", again, outside)
	}
	if err := Leave(dataDir); err != nil {
		t.Fatal(err)
	}
	if isThere(outside) || !isThere(filepath.Join(dataDir, insideName, "uid")) {
		t.Error("it was not moved into the data directory")
	}
	if again := base(t, dataDir, true); again != outside || !isThere(filepath.Join(again, "uid")) {
		t.Errorf("the next podhost has %s, want %s with the pod's files", again, outside)
	}
	if err := Leave(dataDir); err != nil {
		t.Fatal(err)
	}
	// Somebody takes the name meanwhile.
	if err := os.Symlink("/", outside); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(outside)
	if other := base(t, dataDir, true); other == outside || !isThere(filepath.Join(other, "uid")) {
		t.Errorf("with the name taken it is %s", other)
	}
}

func TestCleanLeavesNothing(t *testing.T) {
	dataDir := hidden(t)
	outside := base(t, dataDir, true)
	keep(t, outside)
	keep(t, filepath.Join(dataDir, insideName))
	for range 2 {
		if err := Clean(dataDir); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{outside, filepath.Join(dataDir, insideName), filepath.Join(dataDir, recordName)} {
		if isThere(path) {
			t.Errorf("%s is left", path)
		}
	}
}

func TestOrphansAreRemoved(t *testing.T) {
	gone, used := hidden(t), hidden(t)
	orphan, other := base(t, gone, true), base(t, used, true)
	keep(t, orphan)
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	base(t, hidden(t), true)
	if isThere(orphan) {
		t.Error("a directory whose data directory is gone was left")
	}
	if !isThere(other) {
		t.Error("a directory in use was removed")
	}
}

// The recorded directory lies where everybody can make files.
func TestRecordOfSomethingElseIsNotFollowed(t *testing.T) {
	dataDir, elsewhere := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), outsidePrefix+"link")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, elsewhere, "relative"} {
		if err := os.WriteFile(filepath.Join(dataDir, recordName), []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Clean(dataDir); err != nil {
			t.Fatal(err)
		}
		if !isThere(elsewhere) {
			t.Fatalf("with %s recorded, something else was removed", path)
		}
	}
}
