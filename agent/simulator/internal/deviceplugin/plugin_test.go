package deviceplugin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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
	if opened := int(reopened.Fd()); opened != number {
		if err := unix.Dup3(opened, number, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(number)
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
