package poddir_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
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

func taken(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pods")
	must(t, poddir.Take(dir, 0o711))
	return dir
}

// Edge case: A podhost removed every neighbouring directory. Also: TestNothingIsRemovedFromADirectoryThatNoPodhostMade; agent/simulator/internal/podhost/volume TestCleanLeavesWhatNoPodhostMade, TestADirectoryThatNoPodhostMadeIsRefused; agent/simulator/internal/podhost TestStoppedPodhostLeavesPodsToItsSuccessor.
func TestOnlyPodsAreListedAndRemoved(t *testing.T) {
	dir, outside := taken(t), t.TempDir()
	notes, link := filepath.Join(dir, "notes"), filepath.Join(dir, another)
	inPod := filepath.Join(dir, pod, "volumes")
	must(t, errors.Join(os.Mkdir(notes, 0o700), os.MkdirAll(inPod, 0o700), os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600),
		os.Symlink(outside, link), os.Symlink(outside, filepath.Join(inPod, "v"))))
	uids, others, err := poddir.List(dir)
	must(t, err)
	if want := []string{link, notes}; !slices.Equal(uids, []types.UID{pod}) || !slices.Equal(others, want) {
		t.Errorf("it lists pods %v and others %v, want %s and %v", uids, others, pod, want)
	}
	must(t, poddir.Remove(dir, pod))
	must(t, poddir.Remove(dir, pod))
	if isThere(filepath.Join(dir, pod)) {
		t.Error("the pod's directory is left")
	}
	if err := poddir.Remove(dir, another); err == nil || !strings.Contains(err.Error(), link) {
		t.Errorf("removing a link: %v, want an error that names it", err)
	}
	for _, name := range []types.UID{"", ".", "..", "notes", pod + "/volumes", "../" + pod} {
		if err := poddir.Remove(dir, name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	for _, path := range []string{notes, link, filepath.Join(outside, "precious")} {
		if !isThere(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

func TestNothingIsRemovedFromADirectoryThatNoPodhostMade(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, pod)
	must(t, os.Mkdir(kept, 0o700))
	if err := poddir.Take(dir, 0o711); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("taking it: %v, want an error that names it", err)
	}
	if err := poddir.Remove(dir, pod); err == nil {
		t.Error("removing a pod's directory succeeded")
	}
	left, err := poddir.Clean(dir)
	must(t, err)
	if !slices.Equal(left, []string{dir}) {
		t.Errorf("left %v, want %s", left, dir)
	}
	if !isThere(kept) {
		t.Error("it was removed")
	}
}

// Many pods end at the same time.
func TestRemovalsDoNotRefuseEachOther(t *testing.T) {
	dir := taken(t)
	var removing sync.WaitGroup
	for _, digit := range "0123456789abcdef" {
		uid := string(digit) + pod[1:]
		must(t, os.Mkdir(filepath.Join(dir, uid), 0o700))
		removing.Go(func() {
			if err := poddir.Remove(dir, types.UID(uid)); err != nil {
				t.Error(err)
			}
		})
	}
	removing.Wait()
	if uids, _, err := poddir.List(dir); err != nil || len(uids) > 0 {
		t.Errorf("left %v (%v)", uids, err)
	}
}
