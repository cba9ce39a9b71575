package owneddir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const kind = "fleet"

// known is what the program of these tests makes.
var known = []string{"state.json", "logs/*.log", "data/member/db", "run/*.sock", "pods/*/**", "clusters/"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(path), 0o644))
}

func taken(t *testing.T, path string) *Directory {
	t.Helper()
	d, err := Take(path, kind, 0o755)
	must(t, err)
	t.Cleanup(d.Close)
	return d
}

func remove(t *testing.T, d *Directory) []string {
	t.Helper()
	left, err := d.Remove(known)
	must(t, err)
	for i := range left {
		left[i] = strings.TrimPrefix(left[i], d.path+"/")
	}
	return left
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestWhatWasTakenIsRemoved(t *testing.T) {
	for name, there := range map[string]bool{"a missing directory": false, "an empty directory": true} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "fleet")
			if there {
				must(t, os.MkdirAll(dir, 0o755))
			}
			d := taken(t, dir)
			for _, own := range []string{"state.json", "logs/hub.log", "data/member/db", "pods/1/a/b", "pods/2/.hidden"} {
				write(t, filepath.Join(dir, own))
			}
			must(t, os.Symlink("/", filepath.Join(dir, "pods/1/link")))
			must(t, os.Mkdir(filepath.Join(dir, "clusters"), 0o755))
			if left := remove(t, d); len(left) > 0 {
				t.Errorf("left %v", left)
			}
			if exists(dir) != there {
				t.Errorf("the directory is there: %t, want %t", !there, there)
			}
			if there && exists(filepath.Join(dir, MarkerName)) {
				t.Error("the marker is left")
			}
		})
	}
}

func TestADirectoryThatCountsAsMadeIsRemovedIfItIsEmpty(t *testing.T) {
	for name, foreign := range map[string]bool{"empty": false, "with a file": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := taken(t, dir)
			must(t, first.CountAsMade())
			first.Close()
			d, err := Open(dir, kind)
			must(t, err)
			defer d.Close()
			if foreign {
				write(t, filepath.Join(dir, "precious"))
			}
			remove(t, d)
			if exists(dir) != foreign {
				t.Errorf("the directory is there: %t, want %t", !foreign, foreign)
			}
		})
	}
}

func TestADirectoryWithFilesIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "precious"))
	if _, err := Take(dir, kind, 0o755); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "precious") {
		t.Errorf("got %v, want ErrNotEmpty that names the file", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("it holds %v (%v), want nothing written", names, err)
	}
	if _, err := Open(dir, kind); !errors.Is(err, ErrNoMarker) {
		t.Errorf("opening: %v, want ErrNoMarker", err)
	}
}

func TestADirectoryIsTakenOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	d := taken(t, dir)
	if _, err := Take(dir, kind, 0o755); !errors.Is(err, ErrBusy) {
		t.Errorf("while it is open: %v, want ErrBusy", err)
	}
	if _, err := Open(dir, kind); !errors.Is(err, ErrBusy) {
		t.Errorf("while it is open: %v, want ErrBusy", err)
	}
	d.Close()
	if _, err := Take(dir, kind, 0o755); !errors.Is(err, ErrTaken) {
		t.Errorf("got %v, want ErrTaken", err)
	}
	again, err := Open(dir, kind)
	must(t, err)
	defer again.Close()
	if again.ID() == "" || again.ID() != d.ID() {
		t.Errorf("ID %q, want %q", again.ID(), d.ID())
	}
}

func TestOthersFilesAreLeftAndNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"))
	d := taken(t, dir)
	for _, own := range []string{"state.json", "logs/hub.log"} {
		write(t, filepath.Join(dir, own))
	}
	foreign := []string{"data", "logs/notes.txt", "mine/state.json", "pods/a-file", "run/x.sock", "state.json.bak"}
	for _, path := range []string{"logs/notes.txt", "mine/state.json", "pods/a-file", "state.json.bak"} {
		write(t, filepath.Join(dir, path))
	}
	// Links with the names of a directory and of a file.
	must(t, os.Symlink(outside, filepath.Join(dir, "data")))
	must(t, os.MkdirAll(filepath.Join(dir, "run"), 0o755))
	must(t, os.Symlink(filepath.Join(outside, "precious"), filepath.Join(dir, "run/x.sock")))
	want := slices.DeleteFunc(slices.Clone(foreign), func(path string) bool { return path == "mine/state.json" })
	want = append(want, "mine")
	slices.Sort(want)
	if left := remove(t, d); !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	for _, path := range foreign {
		if !exists(filepath.Join(dir, path)) {
			t.Errorf("%s is gone", path)
		}
	}
	if !exists(filepath.Join(outside, "precious")) {
		t.Error("a link was followed")
	}
	for _, path := range []string{"state.json", "logs/hub.log", MarkerName} {
		if exists(filepath.Join(dir, path)) {
			t.Errorf("%s is left", path)
		}
	}
}

func TestAnExchangedDirectoryIsLeft(t *testing.T) {
	for name, exchange := range map[string]func(t *testing.T, dir, other string){
		"for a link":       func(t *testing.T, dir, other string) { must(t, os.Symlink(other, dir)) },
		"for another":      func(t *testing.T, dir, other string) { must(t, os.Rename(other, dir)) },
		"for an empty one": func(t *testing.T, dir, _ string) { must(t, os.Mkdir(dir, 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir, other := filepath.Join(parent, "fleet"), filepath.Join(parent, "other")
			write(t, filepath.Join(other, "state.json"))
			d := taken(t, dir)
			write(t, filepath.Join(dir, "state.json"))
			moved := filepath.Join(parent, "moved")
			must(t, os.Rename(dir, moved))
			exchange(t, dir, other)
			if left := remove(t, d); len(left) > 0 {
				t.Errorf("left %v", left)
			}
			if exists(filepath.Join(moved, "state.json")) {
				t.Error("the file in the directory that was taken is left")
			}
			if !exists(dir) || name != "for an empty one" && !exists(filepath.Join(dir, "state.json")) {
				t.Error("what took the directory's place was touched")
			}
		})
	}
}

func TestMountsAreNotEntered(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "fleet"), t.TempDir()
	write(t, filepath.Join(outside, "precious.log"))
	d := taken(t, dir)
	write(t, filepath.Join(dir, "state.json"))
	mounts := map[string]string{"logs": outside, "pods/1/inner": outside, "data/member/db": filepath.Join(outside, "precious.log")}
	must(t, errors.Join(os.MkdirAll(filepath.Join(dir, "logs"), 0o755), os.MkdirAll(filepath.Join(dir, "pods/1/inner"), 0o755)))
	write(t, filepath.Join(dir, "data/member/db"))
	for at, source := range mounts {
		target := filepath.Join(dir, at)
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("bind mounts need root: %v", err)
		}
		t.Cleanup(func() { must(t, unix.Unmount(target, unix.MNT_DETACH)) })
	}
	if left, want := remove(t, d), []string{"data/member/db", "logs", "pods/1/inner"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	if !exists(filepath.Join(outside, "precious.log")) {
		t.Error("a mount point was entered")
	}
	if exists(filepath.Join(dir, "state.json")) {
		t.Error("an own file is left")
	}
}

// While a directory is removed, another process exchanges a part of it for a link to files of others, again and again.
func TestARaceWithLinksTouchesNothingElse(t *testing.T) {
	parent := t.TempDir()
	outside := filepath.Join(parent, "outside")
	write(t, filepath.Join(outside, "precious.log"))
	for range 30 {
		dir := filepath.Join(parent, "fleet")
		d, err := Take(dir, kind, 0o755)
		must(t, err)
		logs, aside := filepath.Join(dir, "logs"), filepath.Join(parent, "aside")
		for _, name := range []string{"a.log", "b.log", "c.log"} {
			write(t, filepath.Join(logs, name))
		}
		swapped := make(chan error)
		go func() {
			var failed error
			for range 20 {
				if os.Rename(logs, aside) != nil {
					break
				}
				failed = errors.Join(failed, os.Symlink(outside, logs), os.Remove(logs))
				if os.Rename(aside, logs) != nil {
					break
				}
			}
			swapped <- failed
		}()
		_, err = d.Remove(known)
		d.Close()
		if swapErr := <-swapped; swapErr != nil {
			t.Logf("swapping the directory: %v", swapErr)
		}
		if !exists(filepath.Join(outside, "precious.log")) {
			t.Fatalf("a link was followed (%v)", err)
		}
		must(t, errors.Join(os.RemoveAll(dir), os.RemoveAll(aside)))
	}
}

func TestPatternsThatLeadElsewhereAreRefused(t *testing.T) {
	d := taken(t, filepath.Join(t.TempDir(), "fleet"))
	for _, bad := range []string{"", "/", "../x", "a//b", "a/../b", "./a", "**", "a/**/b", "[", "/etc/passwd"} {
		if _, err := d.Remove([]string{bad}); err == nil {
			t.Errorf("pattern %q was accepted", bad)
		}
	}
	if !exists(filepath.Join(d.path, MarkerName)) {
		t.Error("the marker is gone")
	}
}

func FuzzMarker(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"fleet","version":1,"id":"x","inode":1,"made":true}`, `{"kind":"fleet","version":2}`, `{"kind":"simcluster","version":1}`,
		``, `null`, `[]`, `{`, `{"inode":-1}`, `{"inode":1e99}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := decodeMarker(content, kind)
		if err != nil && !errors.Is(err, ErrUnsafe) {
			t.Errorf("%q: %v is not ErrUnsafe", content, err)
		}
		if err == nil && (m.Kind != kind || m.Version != markerVersion) {
			t.Errorf("%q was read as %+v", content, m)
		}
	})
}

func TestOneTreeIsRemoved(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "fleet"), t.TempDir()
	d := taken(t, dir)
	write(t, filepath.Join(dir, "one/a/b"))
	write(t, filepath.Join(dir, "two"))
	write(t, filepath.Join(outside, "precious"))
	must(t, os.Symlink(outside, filepath.Join(dir, "one/link")))
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	for name, left := range map[string][]string{
		"one": nil, "missing": nil, "two": {filepath.Join(dir, "two")}, "link": {filepath.Join(dir, "link")}, MarkerName: {filepath.Join(dir, MarkerName)},
	} {
		if got, err := d.RemoveTree(name); err != nil || !slices.Equal(got, left) {
			t.Errorf("%s: left %v (%v), want %v", name, got, err, left)
		}
	}
	for _, name := range []string{"", ".", "..", "one/a", "/"} {
		if _, err := d.RemoveTree(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	if exists(filepath.Join(dir, "one")) {
		t.Error("the directory is left")
	}
	for _, path := range []string{filepath.Join(dir, "two"), filepath.Join(dir, "link"), filepath.Join(dir, MarkerName), filepath.Join(outside, "precious")} {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
}
