package poddir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

const (
	pod     = "0d9f5a3c-3f0e-4a57-9d5b-0c5b6a1e7f11"
	another = "1d9f5a3c-3f0e-4a57-9d5b-0c5b6a1e7f11"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func taken(t *testing.T) (*Directory, string) {
	t.Helper()
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, d.Path()
}

// Edge case: A podhost removed every neighbouring directory. Also: TestADirectoryThatNoPodhostMadeIsRefused; agent/simulator/internal/podhost TestStoppedPodhostLeavesPodsToItsSuccessor.
func TestOnlyPodsAreListedAndRemoved(t *testing.T) {
	d, dir := taken(t)
	outside := t.TempDir()
	notes, link := filepath.Join(dir, "notes"), filepath.Join(dir, another)
	inPod := filepath.Join(dir, pod, "volumes")
	must(t, errors.Join(os.Mkdir(notes, 0o700), os.MkdirAll(inPod, 0o700), os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600),
		os.Symlink(outside, link), os.Symlink(outside, filepath.Join(inPod, "v"))))
	uids, others, err := d.List()
	must(t, err)
	if want := []string{link, notes}; !slices.Equal(uids, []types.UID{pod}) || !slices.Equal(others, want) {
		t.Errorf("it lists pods %v and others %v, want %s and %v", uids, others, pod, want)
	}
	must(t, d.Remove(pod))
	must(t, d.Remove(pod))
	if isThere(filepath.Join(dir, pod)) {
		t.Error("the pod's directory is left")
	}
	if err := d.Remove(another); err == nil || !strings.Contains(err.Error(), link) {
		t.Errorf("removing a link: %v, want an error that names it", err)
	}
	for _, name := range []types.UID{"", ".", "..", "notes", pod + "/volumes", "../" + pod} {
		if err := d.Remove(name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	d.Close()
	left, err := Clean(filepath.Dir(dir))
	must(t, err)
	if want := []string{link, notes}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	for _, path := range []string{notes, link, filepath.Join(outside, "precious")} {
		if !isThere(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

// Many pods end at the same time.
func TestRemovalsDoNotRefuseEachOther(t *testing.T) {
	d, dir := taken(t)
	var removing sync.WaitGroup
	for _, digit := range "0123456789abcdef" {
		uid := string(digit) + pod[1:]
		must(t, os.Mkdir(filepath.Join(dir, uid), 0o700))
		removing.Go(func() {
			if err := d.Remove(types.UID(uid)); err != nil {
				t.Error(err)
			}
		})
	}
	removing.Wait()
	if uids, _, err := d.List(); err != nil || len(uids) > 0 {
		t.Errorf("left %v (%v)", uids, err)
	}
}

func TestCleanLeavesNothing(t *testing.T) {
	d, dir := taken(t)
	dataDir := filepath.Dir(dir)
	if _, err := Open(dataDir); err == nil {
		t.Error("two podhosts have one directory")
	}
	must(t, os.Mkdir(filepath.Join(dir, pod), 0o700))
	d.Close() // It was killed.
	again, err := Open(dataDir)
	must(t, err)
	if !isThere(filepath.Join(dir, pod)) {
		t.Error("the files of a pod are gone with a podhost that was killed")
	}
	again.Close()
	for range 2 {
		if left, err := Clean(dataDir); err != nil || len(left) > 0 {
			t.Errorf("left %v (%v)", left, err)
		}
	}
	if left, err := os.ReadDir(dataDir); err != nil || len(left) > 0 {
		t.Errorf("in the data directory are %v (%v)", left, err)
	}
}

// A directory, or a link to one, that has the name of the podhost's own.
func TestADirectoryThatNoPodhostMadeIsRefused(t *testing.T) {
	for name, link := range map[string]bool{"a directory": false, "a link": true} {
		t.Run(name, func(t *testing.T) {
			dataDir := t.TempDir()
			inside := filepath.Join(dataDir, insideName)
			must(t, os.MkdirAll(filepath.Join(inside, pod), 0o700))
			if link {
				elsewhere := t.TempDir()
				must(t, errors.Join(os.Mkdir(filepath.Join(elsewhere, pod), 0o700), os.RemoveAll(inside), os.Symlink(elsewhere, inside)))
			}
			if _, err := Open(dataDir); err == nil || !strings.Contains(err.Error(), inside) {
				t.Errorf("got %v, want an error that names %s", err, inside)
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
