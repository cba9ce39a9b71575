package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Claim: Manifests come before ready. Broken: an object without a name taken; files in another order. Also: TestCertificatesOfAnotherProgramAreFollowed.
func TestManifests(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.yaml":     "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: later\n",
		"a.yml":      "# nothing but a comment\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: first\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: second\n",
		"c.json":     `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "last"}}`,
		"README.txt": "no manifest",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := readManifests([]string{filepath.Join(dir, "c.json"), dir})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, object.GetName())
	}
	if got, want := strings.Join(names, " "), "last first second later last"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, content := range map[string]string{"nameless.yaml": "apiVersion: v1\nkind: Namespace\n", "broken.yaml": "a: [", "list.yaml": "- a\n"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readManifests([]string{file}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want one that names the file", name, err)
		}
	}
	if _, err := readManifests([]string{"/nonexistent.yaml"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a missing file: %v", err)
	}
}
