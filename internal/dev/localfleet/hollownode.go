package localfleet

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// HollowNodeProcess returns the process ID of the hollow node whose pod has the address. Addresses of pods are
// unique on this machine.
func HollowNodeProcess(address string) (int, error) {
	commandLines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, fmt.Errorf("looking for the process at %s: %w", address, err)
	}
	for _, path := range commandLines {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // It ended meanwhile.
		}
		arguments := bytes.Split(content, []byte{0})
		if slices.ContainsFunc(arguments, func(a []byte) bool { return string(a) == "--bind-address="+address }) {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no process is bound to the pod's address %s", address)
}
