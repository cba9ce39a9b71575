package fleettest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// panicked is how a Go program says that it dies of a panic, or a controller that it has lived through one.
var panicked = regexp.MustCompile(`^panic: |^fatal error: |Observed a panic`)

// panics returns what the logs in dir say of panics, a line each. A test that starts programs again must look there: it
// would never be seen otherwise that one ended because it is wrong.
func panics(dir string) ([]string, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, fmt.Errorf("looking for logs: %w", err)
	}
	if len(logs) == 0 {
		return nil, fmt.Errorf("%s has no log", dir)
	}
	var found []string
	for _, log := range logs {
		lines, err := panicsIn(log)
		if err != nil {
			return nil, fmt.Errorf("looking through %s: %w", log, err)
		}
		found = append(found, lines...)
	}
	return found, nil
}

func panicsIn(log string) ([]string, error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var found []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20) // A condition's message can make a line of a log long.
	for lines.Scan() {
		if panicked.MatchString(lines.Text()) {
			found = append(found, filepath.Base(log)+": "+lines.Text())
		}
	}
	return found, lines.Err()
}
