package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	t.Cleanup(func() { _, _ = Clean(dataDir) })
	return dataDir
}

const podUID = "0d9f5a3c-3f0e-4a57-9d5b-0c5b6a1e7f11"

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
	if err := os.MkdirAll(filepath.Join(directory, podUID), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestBaseIsInTheDataDirectoryIfItCanBe(t *testing.T) {
	dataDir := hidden(t)
	if got := base(t, dataDir, false); got != filepath.Join(dataDir, insideName) {
		t.Errorf("for a podhost of one user it is %s", got)
	}
	open := t.TempDir()
	t.Cleanup(func() { _, _ = Clean(open) })
	if got := base(t, open, true); reachable(open) && got != filepath.Join(open, insideName) {
		t.Errorf("in a directory that every user can reach it is %s", got)
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
	if isThere(outside) || !isThere(filepath.Join(dataDir, insideName, podUID)) {
		t.Error("it was not moved into the data directory")
	}
	if again := base(t, dataDir, true); again != outside || !isThere(filepath.Join(again, podUID)) {
		t.Errorf("the next podhost has %s, want %s with the pod's files", again, outside)
	}
	if err := Leave(dataDir); err != nil {
		t.Fatal(err)
	}
	// Another user takes the name meanwhile.
	if err := os.Symlink("/", outside); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(outside)
	if other := base(t, dataDir, true); other == outside || !isThere(filepath.Join(other, podUID)) {
		t.Errorf("with the name taken it is %s", other)
	}
}

func TestCleanLeavesNothing(t *testing.T) {
	dataDir := hidden(t)
	inside := filepath.Join(dataDir, insideName)
	base(t, dataDir, false)
	outside := base(t, dataDir, true)
	keep(t, outside)
	must(t, takeInside(inside))
	keep(t, inside)
	for range 2 {
		clean(t, dataDir)
	}
	for _, path := range []string{outside, inside, filepath.Join(dataDir, recordName)} {
		if isThere(path) {
			t.Errorf("%s is left", path)
		}
	}
}

// clean returns the paths of what was left.
func clean(t *testing.T, dataDir string) []string {
	t.Helper()
	left, err := Clean(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// forget removes a base directory that Clean cannot find any more.
func forget(t *testing.T, base string) {
	t.Helper()
	t.Cleanup(func() { _, _ = removeBase(base) })
}

func TestCleanLeavesWhatNoPodhostMade(t *testing.T) {
	for name, switchesUsers := range map[string]bool{"inside": false, "outside": true} {
		t.Run(name, func(t *testing.T) {
			dataDir, precious := hidden(t), t.TempDir()
			keep(t, precious)
			made := base(t, dataDir, switchesUsers)
			keep(t, made)
			t.Cleanup(func() { _ = os.RemoveAll(made) })
			volumes := filepath.Join(made, podUID, volumesDirectory)
			notes, link := filepath.Join(made, "notes"), filepath.Join(made, "1"+podUID[1:])
			err := errors.Join(os.Mkdir(notes, 0o700), os.Symlink(precious, link),
				os.Mkdir(volumes, 0o700), os.Symlink(precious, filepath.Join(volumes, "v")))
			if err != nil {
				t.Fatal(err)
			}
			left := clean(t, dataDir)
			slices.Sort(left)
			if want := []string{link, notes}; !slices.Equal(left, want) {
				t.Errorf("left %v, want %v", left, want)
			}
			for _, path := range []string{notes, link, filepath.Join(precious, podUID)} {
				if !isThere(path) {
					t.Errorf("%s is gone", path)
				}
			}
			if isThere(filepath.Join(made, podUID)) {
				t.Error("the pod's directory is left")
			}
		})
	}
}

// A directory, or a link to one, that has the name of the podhost's own.
func TestADirectoryThatNoPodhostMadeIsRefused(t *testing.T) {
	for name, link := range map[string]bool{"a directory": false, "a link": true} {
		t.Run(name, func(t *testing.T) {
			dataDir := hidden(t)
			inside := filepath.Join(dataDir, insideName)
			keep(t, inside)
			if link {
				elsewhere := t.TempDir()
				keep(t, elsewhere)
				if err := errors.Join(os.RemoveAll(inside), os.Symlink(elsewhere, inside)); err != nil {
					t.Fatal(err)
				}
			}
			for _, switchesUsers := range []bool{false, true} {
				if path, err := Base(dataDir, switchesUsers); err == nil || !strings.Contains(err.Error(), inside) {
					t.Errorf("got %s (%v), want an error that names %s", path, err, inside)
				}
			}
			if left := clean(t, dataDir); !slices.Equal(left, []string{inside}) {
				t.Errorf("left %v, want %s", left, inside)
			}
			if !isThere(filepath.Join(inside, podUID)) {
				t.Error("what was there is gone")
			}
		})
	}
}

func TestOrphansAreRemoved(t *testing.T) {
	dataDir, used := hidden(t), hidden(t)
	orphan, other := base(t, dataDir, true), base(t, used, true)
	keep(t, orphan)
	r, err := readRecord(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := makeOutside(dataDir, filepath.Join(dataDir, insideName), r.ID); err != nil {
		t.Fatal(err)
	}
	base(t, hidden(t), true)
	if isThere(orphan) {
		t.Error("a directory whose data directory has another one was left")
	}
	if !isThere(other) {
		t.Error("a directory in use was removed")
	}
}

// A data directory that is not where it was is not proven to be gone.
// Edge case: A podhost removed another's volumes. Also: TestADataDirectoryIsKnownByItsID, TestOrphansAreRemoved.
func TestTheBaseOfADataDirectoryThatIsAwayStays(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, dataDir, moved string){
		"renamed":   func(*testing.T, string, string) {},
		"unmounted": func(t *testing.T, dataDir, _ string) { must(t, os.Mkdir(dataDir, 0o755)) },
		"with another in its place": func(t *testing.T, dataDir, _ string) {
			must(t, os.Mkdir(dataDir, 0o755))
			base(t, dataDir, true)
		},
		"copied back": func(t *testing.T, dataDir, moved string) {
			must(t, os.CopyFS(dataDir, os.DirFS(moved)))
			base(t, dataDir, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir := hidden(t)
			made := base(t, dataDir, true)
			keep(t, made)
			forget(t, made)
			moved := dataDir + "-moved"
			must(t, os.Rename(dataDir, moved))
			test(t, dataDir, moved)
			base(t, hidden(t), true)
			if name != "renamed" {
				clean(t, dataDir)
			}
			if !isThere(filepath.Join(made, podUID)) {
				t.Fatal("the pods' files are gone")
			}
			if again := base(t, moved, true); again != made {
				t.Errorf("under its new name the data directory has %s, want %s", again, made)
			}
			clean(t, moved)
			if isThere(made) {
				t.Error("the data directory's own Clean left it")
			}
		})
	}
}

// The path of a file system's root can have the same inode as that of another one that is mounted there later.
func TestADataDirectoryIsKnownByItsID(t *testing.T) {
	dataDir := hidden(t)
	made := base(t, dataDir, true)
	keep(t, made)
	forget(t, made)
	must(t, writeRecord(dataDir, record{Base: made + "1", ID: "another"}))
	base(t, hidden(t), true)
	if !isThere(made) {
		t.Error("the base of a data directory with another ID was removed")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The recorded directory lies where every user can make files.
func TestRecordOfSomethingElseIsNotFollowed(t *testing.T) {
	dataDir, elsewhere := t.TempDir(), t.TempDir()
	foreign := filepath.Join(t.TempDir(), outsidePrefix+"foreign")
	link := filepath.Join(t.TempDir(), outsidePrefix+"link")
	must(t, os.Symlink(elsewhere, link))
	keep(t, foreign)
	for _, path := range []string{link, elsewhere, "relative", foreign} {
		must(t, writeRecord(dataDir, record{Base: path, ID: "id"}))
		clean(t, dataDir)
		if !isThere(elsewhere) || !isThere(link) || !isThere(foreign) {
			t.Fatalf("with %s recorded, something else was removed", path)
		}
	}
}
