package poddir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hidden returns a data directory that other users cannot reach.
func hidden(t *testing.T) string {
	t.Helper()
	dataDir := filepath.Join(t.TempDir(), "hidden", "data")
	must(t, os.MkdirAll(dataDir, 0o755))
	must(t, os.Chmod(filepath.Dir(dataDir), 0o700))
	t.Cleanup(func() { _, _ = Clean(dataDir) })
	return dataDir
}

func opened(t *testing.T, dataDir string, switchesUsers bool) *Directory {
	t.Helper()
	d, err := Open(dataDir, switchesUsers)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// kill lets a podhost end without a word.
func (d *Directory) kill() { d.owned.Close() }

func keep(t *testing.T, directory string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(directory, pod), 0o700))
}

func TestTheDirectoryIsInTheDataDirectoryIfItCanBe(t *testing.T) {
	dataDir := hidden(t)
	d := opened(t, dataDir, false)
	if want := filepath.Join(dataDir, insideName); d.Path() != want {
		t.Errorf("for a podhost of one user it is %s", d.Path())
	}
	must(t, d.Close())
	open := t.TempDir()
	d = opened(t, open, true)
	if reachable(open) && d.Path() != filepath.Join(open, insideName) {
		t.Errorf("in a directory that every user can reach it is %s", d.Path())
	}
	must(t, d.Close())
	if _, err := Clean(open); err != nil {
		t.Error(err)
	}
}

func TestOutside(t *testing.T) {
	dataDir := hidden(t)
	d := opened(t, dataDir, true)
	outside := d.Path()
	if !reachable(outside) {
		t.Fatalf("other users cannot reach %s", outside)
	}
	if _, err := Open(dataDir, true); err == nil {
		t.Error("two podhosts have one directory")
	}
	keep(t, outside)
	d.kill()
	if d = opened(t, dataDir, true); d.Path() != outside {
		t.Errorf("after a podhost was killed it is %s, want %s", d.Path(), outside)
	}
	must(t, d.Close())
	if isThere(outside) || !isThere(filepath.Join(dataDir, insideName, pod)) {
		t.Error("it was not moved into the data directory")
	}
	if d = opened(t, dataDir, true); d.Path() != outside || !isThere(filepath.Join(outside, pod)) {
		t.Errorf("the next podhost has %s, want %s with the pod's files", d.Path(), outside)
	}
	must(t, d.Close())
	// Another user takes the name meanwhile.
	must(t, os.Symlink("/", outside))
	defer os.Remove(outside)
	d = opened(t, dataDir, true)
	defer d.kill()
	if d.Path() == outside || !isThere(filepath.Join(d.Path(), pod)) {
		t.Errorf("with the name taken it is %s", d.Path())
	}
}

func TestCleanLeavesNothing(t *testing.T) {
	dataDir := hidden(t)
	must(t, opened(t, dataDir, false).Close())
	d := opened(t, dataDir, true)
	keep(t, d.Path())
	d.kill()
	for _, name := range []string{insideName, "logs", "packs"} { // The last two are an earlier version's.
		inside, err := take(filepath.Join(dataDir, name))
		must(t, err)
		keep(t, inside.Path())
		inside.Close()
	}
	for range 2 {
		if left, err := Clean(dataDir); err != nil || len(left) > 0 {
			t.Errorf("left %v (%v)", left, err)
		}
	}
	if isThere(d.Path()) {
		t.Errorf("%s is left", d.Path())
	}
	if left, err := os.ReadDir(dataDir); err != nil || len(left) > 0 {
		t.Errorf("in the data directory are %v (%v)", left, err)
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
				must(t, errors.Join(os.RemoveAll(inside), os.Symlink(elsewhere, inside)))
			}
			for _, switchesUsers := range []bool{false, true} {
				if _, err := Open(dataDir, switchesUsers); err == nil || !strings.Contains(err.Error(), inside) {
					t.Errorf("got %v, want an error that names %s", err, inside)
				}
			}
			if left, err := Clean(dataDir); err != nil || len(left) != 1 || left[0] != inside {
				t.Errorf("left %v (%v), want %s", left, err, inside)
			}
			if !isThere(filepath.Join(inside, pod)) {
				t.Error("what was there is gone")
			}
		})
	}
}

// A data directory that is not where it was is not proven to be gone.
// Edge case: A podhost removed another's volumes. Also: TestARecordOfSomethingElseIsNotFollowed.
func TestTheDirectoryOfADataDirectoryThatIsAwayStays(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, dataDir, moved string){
		"renamed":   func(*testing.T, string, string) {},
		"unmounted": func(t *testing.T, dataDir, _ string) { must(t, os.Mkdir(dataDir, 0o755)) },
		"with another in its place": func(t *testing.T, dataDir, _ string) {
			must(t, os.Mkdir(dataDir, 0o755))
			must(t, opened(t, dataDir, true).Close())
		},
		"copied back": func(t *testing.T, dataDir, moved string) {
			must(t, os.CopyFS(dataDir, os.DirFS(moved)))
			must(t, opened(t, dataDir, true).Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir := hidden(t)
			made := opened(t, dataDir, true)
			keep(t, made.Path())
			made.kill()
			moved := dataDir + "-moved"
			must(t, os.Rename(dataDir, moved))
			test(t, dataDir, moved)
			if name != "renamed" {
				if _, err := Clean(dataDir); err != nil {
					t.Error(err)
				}
			}
			if !isThere(filepath.Join(made.Path(), pod)) {
				t.Fatal("the pods' files are gone")
			}
			again := opened(t, moved, true)
			if again.Path() != made.Path() {
				t.Errorf("under its new name the data directory has %s, want %s", again.Path(), made.Path())
			}
			again.kill()
			if _, err := Clean(moved); err != nil || isThere(made.Path()) {
				t.Errorf("the data directory's own Clean left it (%v)", err)
			}
		})
	}
}

// The recorded directory lies where every user can make files.
func TestARecordOfSomethingElseIsNotFollowed(t *testing.T) {
	dataDir, elsewhere := hidden(t), t.TempDir()
	foreign := filepath.Join(t.TempDir(), outsidePrefix+"foreign")
	link := filepath.Join(t.TempDir(), outsidePrefix+"link")
	other := filepath.Join(t.TempDir(), outsidePrefix+"other")
	must(t, os.Symlink(elsewhere, link))
	keep(t, foreign)
	taken, err := take(other)
	must(t, err)
	taken.Close()
	for _, path := range []string{link, elsewhere, "relative", foreign, other} {
		must(t, record{Base: path, ID: "id", Inode: inodeOf(dataDir)}.write(dataDir))
		d := opened(t, dataDir, true)
		if d.Path() == path {
			t.Errorf("%s was taken for the podhost's own", path)
		}
		must(t, d.Close())
		must(t, record{Base: path, ID: "id", Inode: inodeOf(dataDir)}.write(dataDir))
		if _, err := Clean(dataDir); err != nil {
			t.Error(err)
		}
		if !isThere(elsewhere) || !isThere(link) || !isThere(foreign) || !isThere(other) {
			t.Fatalf("with %s recorded, something else was removed", path)
		}
	}
	// An earlier version that was killed did not write an inode.
	must(t, record{Base: other, ID: "id"}.write(dataDir))
	if _, err := Open(dataDir, true); err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("what an earlier version left: %v, want an error that names it", err)
	}
	must(t, os.RemoveAll(other))
	must(t, opened(t, dataDir, true).Close())
}
