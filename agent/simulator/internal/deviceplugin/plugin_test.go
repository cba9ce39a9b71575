package deviceplugin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Claim: A device plugin that ends removes no socket of another node. Broken: its listener unlinks the path.
func TestAPluginRemovesNoSocketOfAnother(t *testing.T) {
	own, another := t.TempDir(), t.TempDir()
	directory, err := os.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	number := int(directory.Fd())
	plugin, err := Start(Options{Directory: fmt.Sprintf("/proc/self/fd/%d", number), Socket: "plugin-0.sock", Resource: "example.com/gpu", Devices: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	// The node closes its directory, and the next node opens its own under the same number.
	if err := directory.Close(); err != nil {
		t.Fatal(err)
	}
	reopened, err := os.Open(another)
	if err != nil {
		t.Fatal(err)
	}
	defer reopened.Close()
	if int(reopened.Fd()) != number {
		t.Skipf("the directory was opened as %d, not as %d", reopened.Fd(), number)
	}
	socket := filepath.Join(another, "plugin-0.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	plugin.Stop()
	if _, err := os.Stat(socket); err != nil {
		t.Errorf("the socket of another node is gone: %v", err)
	}
}
