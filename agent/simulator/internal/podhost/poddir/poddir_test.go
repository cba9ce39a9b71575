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
	d, err := Open(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, d.Close()) })
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
	d.kill()
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
