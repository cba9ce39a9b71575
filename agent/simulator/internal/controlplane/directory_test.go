package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func noPodhost(string) ([]string, error) { return nil, nil }

// Edge case: `simcluster` took and removed others' files. Also: TestADirectoryThatIsNotMarkedIsNotDeleted, TestDeleteLeavesWhatNoClusterMade, TestForeignRunDirIsLeftAlone.
func TestADataDirectoryWithFilesIsRefused(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "precious")
	err := Run(t.Context(), Options{Name: "c1", DataDir: dir, Components: []string{Etcd, APIServer}})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "--data-dir") || !strings.Contains(err.Error(), "precious") {
		t.Errorf("start: %v, want ErrInvalid with the flag and the file", err)
	}
	if _, err := Delete(dir, noPodhost); !errors.Is(err, ErrInvalid) {
		t.Errorf("delete: %v, want ErrInvalid", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("it holds %v (%v), want nothing made or removed", names, err)
	}
}

// A directory of an earlier version has a lock file, but no marker.
func TestADirectoryThatIsNotMarkedIsNotDeleted(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "lock", "cluster.json", "etcd/member/snap/db")
	if _, err := Delete(dir, noPodhost); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd/member/snap/db")); err != nil {
		t.Error(err)
	}
}

func TestDeleteLeavesWhatNoClusterMade(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "c1"), t.TempDir()
	fill(t, outside, "etcd.log")
	layout, err := NewLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := layout.takeRoot(); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, "cluster.json", "pki/ca.key", "pki/.ca.crt-123", "etcd/member/wal/0000000000000000-00000000000000a1.wal", "podhost/pods-directory",
		"notes", "pki/mine.key", "etcd/member/wal/mine.wal")
	if err := os.Symlink(outside, filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	podhostLeft := filepath.Join(outside, "left")
	left, err := Delete(dir, func(podhostDir string) ([]string, error) {
		return []string{filepath.Join(podhostDir, "found again"), podhostLeft}, nil
	})
	want := []string{"etcd/member/wal/mine.wal", "logs", "notes", "pki/mine.key"}
	for i := range want {
		want[i] = filepath.Join(dir, want[i])
	}
	want = append(want, podhostLeft)
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v (%v), want %v", left, err, want)
	}
	for _, path := range append(want[:len(want)-1], filepath.Join(outside, "etcd.log")) {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "podhost")); err == nil {
		t.Error("the podhost's directory is left")
	}
}

// Edge case: A link for a lock file was truncated.
func TestALinkInPlaceOfTheLockIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "precious")
	link := filepath.Join(dir, "lock")
	if err := os.Symlink(filepath.Join(dir, "precious"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := acquireLock(link, ""); err == nil {
		t.Error("it was locked")
	}
	if content, err := os.ReadFile(filepath.Join(dir, "precious")); err != nil || string(content) != "precious" {
		t.Errorf("the file that the link leads to holds %q (%v)", content, err)
	}
}
