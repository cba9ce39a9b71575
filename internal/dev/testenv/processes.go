package testenv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ProcessesUnder lists the processes of this machine whose command line names dir: what a test left behind.
func ProcessesUnder(dir string) []string {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte(dir)) {
			continue // Ended, or another's.
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() {
			found = append(found, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(content, []byte{0}, []byte{' '})))
		}
	}
	return found
}
