package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, test := range []struct {
		content string
		mode    os.FileMode
	}{{"first", 0o644}, {"second, longer", 0o600}, {"", 0o640}} {
		if err := atomicfile.Write(path, []byte(test.content), test.mode); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(content) != test.content || info.Mode().Perm() != test.mode {
			t.Errorf("got %q with mode %o, want %q with %o", content, info.Mode().Perm(), test.content, test.mode)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "dir"), nil, 0o600); err == nil {
		t.Error("a directory could be replaced")
	}
	// Neither success nor failure may leave temporary files.
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("the directory has %v, want the file and the directory", entries)
	}
}
